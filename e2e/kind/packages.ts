/** Debian packages for running a self-made cluster. images/ installs the packages for building its images. */
import type { Run } from '../../images/command.ts'
import { installer } from '../../images/debian.ts'
import { KindError } from './errors.ts'

const wanted = ['conntrack', 'docker.io', 'iptables', 'nftables', 'runc', 'xfsprogs']

/** Installs missing packages. @throws KindError if that is not permitted */
export async function ensurePackages(run: Run, say: (line: string) => void): Promise<void> {
  const isThere = (name: string) =>
    run('dpkg-query', ['--status', name]).then(
      text => text.includes('Status: install ok installed'),
      () => false,
    )
  const missing: string[] = []
  for (const name of wanted) if (!(await isThere(name))) missing.push(name)
  if (missing.length === 0 || (await installer(run, say)(missing))) return
  throw new KindError(`these are missing, and cannot be installed from here: apt-get install ${missing.join(' ')}`)
}
