/** Changes the installed chart while tests run. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemNamespace } from '../../crds/index.ts'
import { readCluster } from '../kind/cluster.ts'
import { readSettings, root } from '../kind/settings.ts'

const run = promisify(execFile)

/**
 * Upgrades the release to the chart of the working tree. Keeps its current values except the given values. @throws with
 * helm's output
 */
export async function upgradeChart(values: Record<string, string>): Promise<void> {
  const { programs, kubeconfig } = await readCluster(readSettings(process.env))
  const to = ['--kubeconfig', kubeconfig, '--namespace', systemNamespace]
  const set = Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`])
  const options = ['--reuse-values', ...set, '--wait', '--timeout', '300s']
  await run(programs.helm, ['upgrade', 'espalier', join(root, 'charts/espalier'), ...to, ...options])
}
