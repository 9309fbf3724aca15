// A Date that can be stopped, so that every time that the library writes is known beforehand.
// Import it before anything that reads the time. Timers go on in real time.

const RealDate = globalThis.Date;
let stoppedAt;

const now = () => stoppedAt ?? RealDate.now();

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length > 0 ? args : [now()], newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, property) => (property === 'now' ? now : Reflect.get(target, property)),
});

/** Stops the clock at an instant in milliseconds, or lets it run again (undefined). */
export function setClock(instant) {
  stoppedAt = instant;
}
