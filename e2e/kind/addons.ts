/** Add-ons that every cluster gets before Espalier: snapshots (CRDs and controller), and the namespace of the tests. */
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { z } from 'zod'
import type { Run } from '../../images/command.ts'
import type { ClusterFile } from './cluster.ts'
import { snapshotterVersion } from './versions.ts'

export const testNamespace = 'espalier-e2e'

/** Runs kubectl; @returns its output. */
export type Kubectl = (args: readonly string[], input?: string) => Promise<string>

export const kubectlOf =
  (run: Run, { programs, kubeconfig }: Pick<ClusterFile, 'programs' | 'kubeconfig'>): Kubectl =>
  (args, input = '') =>
    run(programs.kubectl, ['--kubeconfig', kubeconfig, ...args], { input })

const documents = (objects: readonly object[]): string => objects.map(object => stringify(object)).join('---\n')
const metadata = (name: string, namespace?: string) => ({ name, ...(namespace === undefined ? {} : { namespace }) })

/** A Deployment of one container under the restricted Pod Security Standard. */
function deployment(name: string, namespace: string, container: object, volumes: object[] = []): object {
  const labels = { app: name }
  const restricted = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadata(name, namespace),
    spec: {
      replicas: 1,
      strategy: { type: 'Recreate' },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: name,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 65532,
            fsGroup: 65532,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          containers: [{ name, imagePullPolicy: 'IfNotPresent', securityContext: restricted, ...container }],
          volumes,
        },
      },
    },
  }
}
const serviceAccount = (name: string, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: metadata(name, namespace),
})

const snapshotGroup = 'snapshot.storage.k8s.io'
/** The permissions in the controller's own documentation, without group snapshots. */
const snapshotRules = [
  { apiGroups: [''], resources: ['persistentvolumes'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: [''], resources: ['persistentvolumeclaims'], verbs: ['get', 'list', 'watch', 'update'] },
  { apiGroups: [''], resources: ['events'], verbs: ['list', 'watch', 'create', 'update', 'patch'] },
  { apiGroups: [snapshotGroup], resources: ['volumesnapshotclasses'], verbs: ['get', 'list', 'watch'] },
  {
    apiGroups: [snapshotGroup],
    resources: ['volumesnapshots', 'volumesnapshotcontents'],
    verbs: ['create', 'get', 'list', 'watch', 'update', 'delete', 'patch'],
  },
  {
    apiGroups: [snapshotGroup],
    resources: ['volumesnapshots/status', 'volumesnapshotcontents/status'],
    verbs: ['update', 'patch'],
  },
]

function snapshotController(): object[] {
  const [name, namespace] = ['snapshot-controller', 'kube-system']
  const subject = { kind: 'ServiceAccount', name, namespace }
  const image = `registry.k8s.io/sig-storage/${name}:${snapshotterVersion}`
  return [
    serviceAccount(name, namespace),
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: metadata(name),
      rules: snapshotRules,
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: metadata(name),
      subjects: [subject],
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    },
    deployment(name, namespace, { image, args: ['--leader-election=false'] }),
  ]
}

const downloaded = z.object({ Dir: z.string() })

/** The snapshot CRDs, from the module that also contains their Go types. */
async function snapshotDefinitions(run: Run): Promise<string[]> {
  const module = `github.com/kubernetes-csi/external-snapshotter/client/v8@${snapshotterVersion}`
  const text = await run('go', ['mod', 'download', '-json', module], { cwd: tmpdir() })
  const directory = join(downloaded.parse(JSON.parse(text)).Dir, 'config/crd')
  const names = (await readdir(directory)).filter(name => name.startsWith(`${snapshotGroup}_`))
  return names.map(name => join(directory, name))
}

/** Applies all add-ons; idempotent. */
export async function installAddons(run: Run, cluster: ClusterFile): Promise<void> {
  const kubectl = kubectlOf(run, cluster)
  const apply = (input: string) => kubectl(['apply', '--server-side', '--filename', '-'], input)
  for (const file of await snapshotDefinitions(run)) await kubectl(['apply', '--server-side', '--filename', file])
  await apply(documents([{ apiVersion: 'v1', kind: 'Namespace', metadata: metadata(testNamespace) }]))
  await apply(documents(snapshotController()))
  const wait = ['rollout', 'status', '--timeout=180s']
  await kubectl([...wait, 'deployment/snapshot-controller', '--namespace', 'kube-system'])
}
