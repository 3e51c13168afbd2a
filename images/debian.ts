/** Installs build dependencies from this machine's Debian packages, if that is permitted. */
import { access, constants } from 'node:fs/promises'
import type { Run } from './command.ts'

export type Install = (packages: readonly string[]) => Promise<boolean>

const aptGet = '/usr/bin/apt-get'

/**
 * Installs packages, if this process is root on a system with apt. Resolves to whether it installed them. @throws
 * ImageError if apt fails
 */
export const installer =
  (run: Run, say: (line: string) => void, user: number | undefined = process.getuid?.()): Install =>
  async packages => {
    const hasApt = await access(aptGet, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (user !== 0 || !hasApt) return false
    say(`installing ${packages.join(', ')} with apt`)
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    // Another program may hold apt's lock.
    const options = ['--quiet', '--yes', '--option', 'DPkg::Lock::Timeout=300']
    await run(aptGet, [...options, 'update'], { env })
    await run(aptGet, [...options, 'install', ...packages], { env })
    return true
  }
