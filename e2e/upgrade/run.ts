/**
 * `make e2e-upgrade FROM=REVISION`: a kind cluster of its own gets Espalier as it was at REVISION, with databases that
 * serve; then the working tree's is installed over it. The tests beside this file say what must hold meanwhile.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseDocument } from 'yaml'
import { logged } from '../../images/command.ts'
import { kubectlOf } from '../kind/addons.ts'
import { writeAuthority } from '../kind/authority.ts'
import { readCluster } from '../kind/cluster.ts'
import { pathsOf, readSettings, root } from '../kind/settings.ts'

/** What is open may go on as long as the test lasts when a replica of the gateway is replaced, as by default. */
const sessionGraceSeconds = 3600

const from = process.argv[2]
const home = process.env.ESPALIER_KIND_HOME || join(root, '.kind-upgrade')
const environment = {
  ...process.env,
  ESPALIER_KIND_NAME: process.env.ESPALIER_KIND_NAME || 'upgrade',
  ESPALIER_KIND_HOME: home,
}

/** @throws Error naming the command, where it fails */
async function run(program: string, args: string[], cwd = root, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const child = spawn(program, args, { cwd, stdio: 'inherit', env: { ...environment, ...env } })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}`)
}
const node = (script: string, directory = root) => run(process.execPath, [join(directory, script)], directory)

/** Has the driver's chart of a checkout name the sidecars that the cluster holds: those of the working tree. */
async function useSidecars(checkout: string): Promise<void> {
  const chart = 'charts/espalier-csi/values.yaml'
  const [before, now] = await Promise.all(
    [checkout, root].map(async directory => parseDocument(await readFile(join(directory, chart), 'utf8'))),
  )
  for (const name of ['provisioner', 'snapshotter', 'resizer'])
    if (before?.hasIn(['sidecars', name])) before.setIn(['sidecars', name], now?.getIn(['sidecars', name]))
  await writeFile(join(checkout, chart), String(before))
}

/** Runs the work while the file that describes the cluster lacks the port for HTTPS, which older checkouts refuse as unknown. */
async function withoutHttpsPort(work: () => Promise<void>): Promise<void> {
  const { cluster: path } = pathsOf(readSettings(environment))
  const whole = await readFile(path, 'utf8')
  const { ports, ...others } = await readCluster(readSettings(environment))
  const { https: _, ...known } = ports
  await writeFile(path, JSON.stringify({ ...others, ports: known }))
  try {
    await work()
  } finally {
    await writeFile(path, whole)
  }
}

/** Installs what the revision holds, from a checkout of its own that is gone afterwards. */
async function installOld(revision: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'espalier-upgrade-'))
  const checkout = join(scratch, 'checkout')
  try {
    await run('git', ['worktree', 'add', '--detach', checkout, revision])
    await run('npm', ['ci', '--prefer-offline', '--loglevel=error', '--no-progress'], checkout)
    const path = join(checkout, 'e2e/kind/values.yaml')
    const values = parseDocument(await readFile(path, 'utf8'))
    values.setIn(['gateway', 'terminationGracePeriodSeconds'], sessionGraceSeconds)
    // Ten databases have room beside the rest on a node of two cores.
    const little = { requests: { cpu: '10m' } }
    for (const part of ['operator', 'api']) values.setIn([part, 'resources'], little)
    values.setIn(['gateway', 'resources'], { haproxy: little, agent: little })
    await writeFile(path, String(values))
    await useSidecars(checkout)
    await withoutHttpsPort(() => node('e2e/kind/deploy.ts', checkout))
  } finally {
    await run('git', ['worktree', 'remove', '--force', checkout])
    await rm(scratch, { recursive: true, force: true })
  }
}

async function main(revision: string): Promise<void> {
  await node('e2e/kind/up.ts')
  try {
    await installOld(revision)
    const settings = readSettings(environment)
    const kubectl = kubectlOf(logged(pathsOf(settings).log), await readCluster(settings))
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    await run(process.execPath, [vitest, 'run', '--config', 'e2e/upgrade/vitest.config.ts'], root, {
      NODE_EXTRA_CA_CERTS: await writeAuthority(settings, kubectl),
    })
  } finally {
    if (process.env.ESPALIER_KIND_KEEP === undefined) await node('e2e/kind/down.ts')
  }
}

if (from === undefined) {
  console.error('usage: make e2e-upgrade FROM=REVISION')
  process.exitCode = 2
} else await main(from)
