/**
 * `make e2e-upgrade FROM=REVISION`: installs Espalier at REVISION on a separate kind cluster, with serving databases.
 * Then it installs the working tree's version over it. The tests in this directory define the requirements for this
 * upgrade.
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
import { dockerOn } from '../kind/engine.ts'
import { pathsOf, readSettings, root } from '../kind/settings.ts'

/**
 * When a gateway replica is replaced, open sessions may continue as long as the test runs, as with the default value.
 */
const sessionGraceSeconds = 3600

const from = process.argv[2]
const home = process.env.ESPALIER_KIND_HOME || join(root, '.kind-upgrade')
const environment = {
  ...process.env,
  ESPALIER_KIND_NAME: process.env.ESPALIER_KIND_NAME || 'upgrade',
  ESPALIER_KIND_HOME: home,
}

/** @throws Error with the command if it fails */
async function run(program: string, args: string[], cwd = root, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const child = spawn(program, args, { cwd, stdio: 'inherit', env: { ...environment, ...env } })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}`)
}
const node = (script: string, directory = root) => run(process.execPath, [join(directory, script)], directory)

/** Sets the sidecars in a checkout's driver chart to the cluster's sidecars, which are those of the working tree. */
async function useSidecars(checkout: string): Promise<void> {
  const chart = 'charts/espalier-csi/values.yaml'
  const [before, now] = await Promise.all(
    [checkout, root].map(async directory => parseDocument(await readFile(join(directory, chart), 'utf8'))),
  )
  for (const name of ['provisioner', 'snapshotter', 'resizer'])
    if (before?.hasIn(['sidecars', name])) before.setIn(['sidecars', name], now?.getIn(['sidecars', name]))
  await writeFile(join(checkout, chart), String(before))
}

/**
 * Whether the checkout has services: then the chart can set another image for them, and the cluster's file contains a
 * port for HTTPS.
 */
const hasServices = async (checkout: string): Promise<boolean> =>
  parseDocument(await readFile(join(checkout, 'charts/espalier/values.yaml'), 'utf8')).has('services')
const hasHttpsPort = async (checkout: string): Promise<boolean> =>
  /\bhttps\b/.test(await readFile(join(checkout, 'e2e/kind/ports.ts'), 'utf8'))

/**
 * Installs a checkout. If it does not know the port for HTTPS, the cluster's file omits this port during the
 * installation.
 */
async function deploy(checkout: string): Promise<void> {
  const work = () => node('e2e/kind/deploy.ts', checkout)
  if (await hasHttpsPort(checkout)) return work()
  const { cluster: path } = pathsOf(readSettings(environment))
  const original = await readFile(path, 'utf8')
  const { ports, ...others } = await readCluster(readSettings(environment))
  const { https: _, ...known } = ports
  await writeFile(path, JSON.stringify({ ...others, ports: known }))
  try {
    await work()
  } finally {
    await writeFile(path, original)
  }
}

const oldImage = 'localhost/espalier:before'

async function tagImage(name: string): Promise<void> {
  const settings = readSettings(environment)
  const { node, dockerHost } = await readCluster(settings)
  const docker = dockerOn(logged(pathsOf(settings).log), dockerHost)
  await docker(['exec', node, 'ctr', '-n', 'k8s.io', 'images', 'tag', '--force', 'localhost/espalier:dev', name])
}

/** Installs the revision from a temporary checkout. */
async function installOld(revision: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'espalier-upgrade-'))
  const checkout = join(scratch, 'checkout')
  try {
    await run('git', ['worktree', 'add', '--detach', checkout, revision])
    await run('npm', ['ci', '--prefer-offline', '--loglevel=error', '--no-progress'], checkout)
    const path = join(checkout, 'e2e/kind/values.yaml')
    const values = parseDocument(await readFile(path, 'utf8'))
    values.setIn(['gateway', 'terminationGracePeriodSeconds'], sessionGraceSeconds)
    // With these requests, ten databases and the rest fit on a node with two cores.
    const little = { requests: { cpu: '10m' } }
    for (const part of ['operator', 'api']) values.setIn([part, 'resources'], little)
    values.setIn(['gateway', 'resources'], { haproxy: little, agent: little })
    await writeFile(path, String(values))
    await useSidecars(checkout)
    await deploy(checkout)
    if (!(await hasServices(checkout))) return
    // Both versions of the image have one tag, but a service is replaced only if the name of its image changes.
    await tagImage(oldImage)
    values.setIn(['services', 'image'], oldImage)
    await writeFile(path, String(values))
    await deploy(checkout)
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
