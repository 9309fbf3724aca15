// A Date that can be stopped, so that all times written by the library are predictable. Import it before
// anything that reads the time. Timers use real time.

const RealDate = globalThis.Date;
let stoppedAt;

const now = () => stoppedAt ?? RealDate.now();

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length > 0 ? args : [now()], newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, property) => (property === 'now' ? now : Reflect.get(target, property)),
});

/** Stops the clock at an instant in milliseconds, or resumes it (undefined). */
export function setClock(instant) {
  stoppedAt = instant;
}
