/** The objects of one attempt: its pod, the Secret that the pod mounts, and its network policy. */
import type { Draft, NetworkPolicy } from '../../../cluster/index.ts'
import { childNames, labels } from '../../../crds/index.ts'
import { type ImportConfiguration, importFile } from '../../../instance/import/contract.ts'
import { systemPods } from '../../endpoint/network-policy.ts'
import { placementOf } from '../../member/pod/placement.ts'
import { podSecurityContext, securityContext } from '../../member/pod/security.ts'
import { type Component, childMetadata, type Owner } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import { attemptAnnotation, importContainer } from './facts.ts'

const component: Component = 'import'
const configurationPath = '/etc/espalier/import'
const terminationPath = '/dev/termination-log'

function metadataOf(owner: Owner, attempt: number) {
  const metadata = childMetadata(owner, childNames.import(owner.id), component)
  return { ...metadata, annotations: { ...metadata.annotations, [attemptAnnotation]: String(attempt) } }
}

export const importSecretDraft = (
  owner: Owner,
  attempt: number,
  configuration: ImportConfiguration,
): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  immutable: true,
  metadata: metadataOf(owner, attempt),
  data: { [importFile]: Buffer.from(JSON.stringify(configuration)).toString('base64') },
})

/**
 * Allows egress only to the database, the source's address and the gateway. The pod needs no DNS, since the operator
 * has resolved the name. The gateway is allowed because the source may be a database of this installation: the cluster
 * network rewrites the gateway's address to a pod's address before it applies policies. The gateway's IP allowlists
 * still apply.
 */
export function importPolicyDraft(
  owner: Owner,
  attempt: number,
  { source }: ImportConfiguration,
): Draft<'NetworkPolicy'> {
  const postgres = { [labels.database]: owner.id, [labels.component]: 'postgres' satisfies Component }
  const cidr = `${source.address}/${source.address.includes(':') ? 128 : 32}`
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadataOf(owner, attempt),
    spec: {
      podSelector: { matchLabels: { [labels.database]: owner.id, [labels.component]: component } },
      policyTypes: ['Ingress', 'Egress'],
      egress: [
        { to: [{ podSelector: { matchLabels: postgres } }], ports: [{ protocol: 'TCP', port: postgresPort }] },
        {
          to: [{ ipBlock: { cidr } }, systemPods('gateway')],
          ports: [{ protocol: 'TCP', port: source.port }],
        },
      ],
    } satisfies NetworkPolicy['spec'],
  }
}

export function importPodDraft(owner: Owner, attempt: number, image: string, pods: PodSettings): Draft<'Pod'> {
  // Spreading over nodes is only for databases.
  const { topologySpreadConstraints: _, terminationGracePeriodSeconds: __, ...placement } = placementOf(pods)
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: metadataOf(owner, attempt),
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 5,
      securityContext: podSecurityContext,
      ...placement,
      containers: [
        {
          name: importContainer,
          image,
          command: ['espalier', 'instance', 'import'],
          args: ['--configuration', configurationPath, '--termination-message', terminationPath],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { cpu: '2', memory: '512Mi' } },
          securityContext,
          terminationMessagePath: terminationPath,
          terminationMessagePolicy: 'File',
          volumeMounts: [
            { name: 'configuration', mountPath: configurationPath, readOnly: true },
            { name: 'temporary', mountPath: '/tmp' },
          ],
        },
      ],
      volumes: [
        { name: 'configuration', secret: { secretName: childNames.import(owner.id), defaultMode: 0o440 } },
        { name: 'temporary', emptyDir: { sizeLimit: '256Mi' } },
      ],
    },
  } satisfies Draft<'Pod'>
}
