#!/usr/bin/env bash
# Prepares a release: tools/release.sh VERSION, such as 0.1.0 or 0.2.0-rc.1. It changes the local repository only:
#
# - It commits the release. In it, CHANGELOG.md has the version, and the modules require each other at the version in
#   place of the directories of the tree, with their checksums. All tags are at this commit.
# - It commits the modules as they were, with which development continues.
# - It prints what is left to do, such as the push.
#
# The checksums are computed by the go command, which reads the modules from a clone with the new tags.
set -euo pipefail

die() {
  echo "release: $*" >&2
  exit 1
}

root=github.com/17a2ac88/bullmq-go
# The released modules besides the root, each after those that it requires.
released=(bullmq/bullmqotel bullmqprom bullmqtest dashboard cmd/bullmq)

cd "$(dirname "$0")/.."
number=${1:-}
number=${number#v}
version=v$number
[[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]] || die "give a version such as 0.1.0: tools/release.sh VERSION"
[[ $version =~ ^v[01]\. ]] || die "from v2 on, the paths of the modules must end with /v2: change them first"
[ -z "$(git status --porcelain)" ] || die "the tree has changes that are not committed"
branch=$(git symbolic-ref --quiet --short HEAD) || die "check out the branch to release from"
tags=("$version")
for module in "${released[@]}"; do tags+=("$module/$version"); done
for tag in "${tags[@]}"; do
  ! git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null || die "the tag $tag exists: choose another version, or remove it"
done
grep -qx '## Unreleased' CHANGELOG.md || die 'CHANGELOG.md has no heading "## Unreleased"'
changes=$(awk '/^## /{section = $0 == "## Unreleased"; next} section' CHANGELOG.md)
[[ $changes =~ [^[:space:]] ]] || die 'CHANGELOG.md has nothing under "## Unreleased"'

temporary=$(mktemp -d)
trap 'chmod -R u+w "$temporary"; rm -rf "$temporary"' EXIT
clone=$temporary/clone
git clone --quiet --no-hardlinks . "$clone"
git -C "$clone" config user.name "$(git config user.name)"
git -C "$clone" config user.email "$(git config user.email)"

# The go command reads the modules of the project from the clone, and others as usual. It keeps what it reads in a
# cache of its own, so that nobody's cache has a version that is not published.
cache=$(go env GOMODCACHE)
export GOWORK=off GOFLAGS=-mod=mod GOTOOLCHAIN=local GOMODCACHE=$temporary/modules
GOPROXY=file://$cache/cache/download,$(go env GOPROXY)
GOPRIVATE=$(go env GOPRIVATE)
export GOPROXY GOPRIVATE=$root,$root/*${GOPRIVATE:+,$GOPRIVATE} GONOPROXY=$root,$root/* GONOSUMDB=$root,$root/*
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$clone.insteadOf GIT_CONFIG_VALUE_0=https://$root

commit() { # message, tag: commits the clone
  git -C "$clone" commit --quiet --all --allow-empty --message "$1"
  git -C "$clone" tag "$2"
}

changelog() { # the heading that replaces "## Unreleased"
  awk -v heading="$1" '!done && $0 == "## Unreleased" {$0 = heading; done = 1} {print}' CHANGELOG.md
}

changelog "## $version ($(date -u +%Y-%m-%d))" >"$clone/CHANGELOG.md"
commit root "$version"

siblings() { # directory: the modules of the project that it requires
  go mod edit -json "$clone/$1/go.mod" | sed -n "s|.*\"Path\": \"\($root[^\"]*\)\".*|\1|p" | sort -u | grep -vx "$root/$1"
}
for module in "${released[@]}"; do
  for sibling in $(siblings "$module"); do
    go mod edit -require="$sibling@$version" -dropreplace="$sibling" "$clone/$module/go.mod"
  done
  echo "release: $module"
  go -C "$clone/$module" mod tidy
  ! grep -q "$root.* => " "$clone/$module/go.mod" || die "$module/go.mod still has a replace line"
  commit "$module" "$module/$version"
done

# Modules that are not released use the tree, and name the same version.
while read -r directory; do
  module=${directory#"$PWD"/}
  [ "$directory" != "$PWD" ] && [[ ! " ${released[*]} " == *" $module "* ]] || continue
  for sibling in $(siblings "$module"); do
    go mod edit -require="$sibling@$version" "$clone/$module/go.mod"
  done
done < <(GOWORK=$PWD/go.work GOFLAGS='' go list -m -f '{{.Dir}}')
commit others others

# One commit has everything. The tags are at it, which changes no checksum: none of the modules has files that were
# changed after its tag.
unset GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
before=$(git rev-parse HEAD)
git fetch --quiet --no-tags "$clone" HEAD
git read-tree --reset -u FETCH_HEAD
git commit --quiet --message "Release $version"
for tag in "${tags[@]}"; do git tag "$tag"; done

git diff --name-only "$before" HEAD -- ':(glob)**/go.mod' ':(glob)**/go.sum' | xargs -r git checkout --quiet "$before" --
awk '!done && /^## /{print "## Unreleased\n"; done = 1} {print}' CHANGELOG.md >"$temporary/changelog"
cat "$temporary/changelog" >CHANGELOG.md
git commit --quiet --all --message "Use the modules of the tree again after $version"

cat <<END
$version is committed and tagged in this repository. Nothing was published. To undo it:
  git tag -d ${tags[*]} && git reset --hard $before
To publish it:
  git push --atomic origin $branch ${tags[*]}
END
