/**
 * Finds how this machine reaches Debian's packages. A build uses the machine's proxy and mirror, but never stores them
 * in an image: they are passed as a build secret, and every image keeps Debian's public addresses.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Suite } from './plan.ts'

const run = promisify(execFile)

type Mirrors = { debian: string; security: string }

export type AptAccess = {
  /** The text of an apt.conf: this machine's proxies and its tolerance for dates. Empty if it has no such settings. */
  configuration: string
  mirrors: Mirrors
}

export const publicMirrors: Mirrors = {
  debian: 'http://deb.debian.org/debian',
  security: 'http://deb.debian.org/debian-security',
}

/** The settings of apt that define how to reach a server. The machine cannot disable the check of signatures. */
const aboutTheWay = /^Acquire::(http|https|Check-Valid-Until|Check-Date|Max-FutureTime|Retries|ForceIPv4|ForceIPv6)\b/

/** Keeps the settings of `apt-config dump` that define how to reach a server. */
export function waySettings(dump: string): string {
  const lines = dump.split('\n').filter(line => aboutTheWay.test(line) && !/ "";$/.test(line))
  return lines.map(line => `${line}\n`).join('')
}

/** Reads lines `URI LABEL` of `apt-get indextargets`. */
export function mirrorsOf(targets: string): Mirrors {
  const uriOf = (label: string) =>
    targets
      .split('\n')
      .map(line => line.trim().split(' '))
      .find(([, found]) => found === label)?.[0]
      ?.replace(/\/$/, '')
  return {
    debian: uriOf('Debian') ?? publicMirrors.debian,
    security: uriOf('Debian-Security') ?? publicMirrors.security,
  }
}

/** Text of a `debian.sources` (deb822) for a suite. */
export function sourcesOf(suite: Suite, mirrors: Mirrors): string {
  const entry = (uri: string, suites: string) =>
    `Types: deb\nURIs: ${uri}\nSuites: ${suites}\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n`
  if (suite === 'sid') return entry(mirrors.debian, 'sid')
  return `${entry(mirrors.debian, `${suite} ${suite}-updates`)}\n${entry(mirrors.security, `${suite}-security`)}`
}

/** Reads the settings of this machine's apt; a machine without apt uses the public addresses. */
export async function machineAccess(): Promise<AptAccess> {
  try {
    const { stdout: dump } = await run('apt-config', ['dump', 'Acquire'])
    const format = ['--format', '$(REPO_URI) $(LABEL)', 'Created-By: Packages', 'Origin: Debian']
    const { stdout: targets } = await run('apt-get', ['indextargets', ...format])
    return { configuration: waySettings(dump), mirrors: mirrorsOf(targets) }
  } catch {
    return { configuration: '', mirrors: publicMirrors }
  }
}
