/**
 * `make e2e PROVIDER=embedded|kind`: runs the end-to-end suite on this machine, or on a kind cluster that is first
 * created and gets Espalier. Further arguments are passed to Vitest.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { pgVersions, systemNamespace } from '../crds/index.ts'
import { logged } from '../images/command.ts'
import { kubectlOf } from './kind/addons.ts'
import { writeAuthority } from './kind/authority.ts'
import { type ClusterFile, readCluster } from './kind/cluster.ts'
import { pathsOf, readSettings, root, type Settings } from './kind/settings.ts'

const [provider = 'embedded', ...rest] = process.argv.slice(2)

async function run(args: string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  const [code] = await once(child, 'close')
  return code ?? 1
}
const vitest = (args: string[], env: NodeJS.ProcessEnv) =>
  run([join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args], env)

/** Lets claims request more storage; no driver provisions its volumes. */
const growingClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'conformance-growing' },
  provisioner: 'conformance.espalier.dev',
  volumeBindingMode: 'WaitForFirstConsumer',
  allowVolumeExpansion: true,
}

/**
 * The conformance suite of the cluster port, with this cluster's API server. It runs before Espalier is installed,
 * because the operator would reconcile the databases that this suite creates.
 */
async function conformance(settings: Settings, cluster: ClusterFile): Promise<number> {
  const tool = logged(pathsOf(settings).log)
  const helm = ['--kubeconfig', cluster.kubeconfig, 'status', 'espalier', '--namespace', systemNamespace]
  const isInstalled = await tool(cluster.programs.helm, helm).then(
    () => true,
    () => false,
  )
  if (isInstalled) return 0
  const kubectl = kubectlOf(tool, cluster)
  await kubectl(['apply', '--server-side', '--filename', join(root, 'crds/generated')])
  await kubectl(['wait', '--for=condition=Established', '--timeout=60s', '--filename', join(root, 'crds/generated')])
  const { name } = growingClass.metadata
  await kubectl(['apply', '--server-side', '--filename', '-'], stringify(growingClass))
  const report = process.env.ESPALIER_TEST_REPORT
  const code = await vitest(['cluster/kubernetes/conformance.test.ts'], {
    ESPALIER_TEST_KUBECONFIG: cluster.kubeconfig,
    ESPALIER_TEST_GROWING_CLASS: name,
    ...(report && { ESPALIER_TEST_REPORT: `${report}.conformance` }),
  })
  await kubectl(['delete', 'storageclass', name])
  return code
}

async function onKind(): Promise<number> {
  const settings = readSettings(process.env)
  const up = await run([join(root, 'e2e/kind/up.ts')])
  if (up !== 0) return up
  const cluster = await readCluster(settings)
  const conforms = await conformance(settings, cluster)
  const deployed = await run([join(root, 'e2e/kind/deploy.ts')])
  if (deployed !== 0) return deployed
  const authority = await writeAuthority(settings, kubectlOf(logged(pathsOf(settings).log), cluster))
  const built = await Promise.all(
    pgVersions.map(major =>
      readFile(join(settings.home, 'images', `postgres-${major}.tar.image`)).catch(() => undefined),
    ),
  )
  const majors = pgVersions.filter((_, index) => built[index] !== undefined)
  const tested = await vitest(['--config', 'e2e/vitest.config.ts', ...rest], {
    ESPALIER_E2E_PROVIDER: 'kind',
    ESPALIER_E2E_PG_VERSIONS: majors.join(','),
    NODE_EXTRA_CA_CERTS: authority,
  })
  return conforms || tested
}

if (provider === 'embedded') process.exitCode = await vitest(['e2e/', ...rest], {})
else if (provider === 'kind') process.exitCode = await onKind()
else {
  console.error(`e2e: PROVIDER must be embedded or kind, not ${JSON.stringify(provider)}`)
  process.exitCode = 2
}
