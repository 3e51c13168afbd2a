# Installs the given packages. Runs during an image build. The secrets define how this machine reaches its mirrors:
# "apt" is an apt.conf, and "apt-sources" replaces the base's own debian.sources. Both may be empty.
set -eu
export DEBIAN_FRONTEND=noninteractive
if [ -s /run/secrets/apt ]; then export APT_CONFIG=/run/secrets/apt; fi

sources=$(mktemp -d)
cp /etc/apt/sources.list.d/* "$sources/"
if [ -s /run/secrets/apt-sources ]; then cat /run/secrets/apt-sources > "$sources/debian.sources"; fi
apt() { apt-get --quiet --yes --option Dir::Etc::sourceparts="$sources" "$@"; }

apt update
apt install --no-install-recommends "$@"
rm -r "$sources"
