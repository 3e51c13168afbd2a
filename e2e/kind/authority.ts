/** The installation's certificate authority as a file, for clients of a kind cluster's API: NODE_EXTRA_CA_CERTS. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemNamespace } from '../../crds/index.ts'
import type { Kubectl } from './addons.ts'
import type { Settings } from './settings.ts'

/** @returns the file's path */
export async function writeAuthority({ home }: Settings, kubectl: Kubectl): Promise<string> {
  const path = join(home, 'ca.crt')
  const output = ['--output', 'jsonpath={.data.ca\\.crt}']
  await writeFile(path, await kubectl(['get', 'configmap', 'espalier-ca', '--namespace', systemNamespace, ...output]))
  return path
}
