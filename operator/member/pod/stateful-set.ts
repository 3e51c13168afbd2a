/**
 * The StatefulSet of one member: one Postgres pod, with the agent that watches it (agent.ts), on the volume the operator made. It has no claim template, so it
 * can never come by an empty volume of its own, and is `OnDelete`, so that a new template restarts nothing: the operator
 * deletes the pod when a restart is due, and gives the StatefulSet a new template (a new release of Espalier, another image)
 * only then: see plan/template.ts.
 *
 * The pod meets the "restricted" Pod Security Standard. Which signal ends Postgres is the image's to say (STOPSIGNAL SIGINT,
 * the fast shutdown): a cluster without the feature gate ContainerStopSignals drops `lifecycle.stopSignal` from what is
 * applied, and the template would never be as it should.
 */
import type { StatefulSet } from '../../../cluster/index.ts'
import { childNames, labels, type PinnedSize, type SizeShape } from '../../../crds/index.ts'
import { logDirectory, logVariable } from '../../../instance/log/directory.ts'
import { dataDirectory } from '../../../instance/volume.ts'
import { canonicalQuantity } from '../../../values/quantity.ts'
import { childLabels, childMetadata } from '../../objects/ownership.ts'
import { digestOf, draftAnnotation, stamped } from '../../objects/up-to-date.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { postgresCommand, postgresPort } from '../../postgres/configuration.ts'
import { type Member, memberLabels } from '../member.ts'
import { podSelector, type Role } from './addresses.ts'
import { agentContainer, agentVolume } from './agent.ts'
import { placementOf } from './placement.ts'
import { podSecurityContext, securityContext } from './security.ts'
import { startCommand } from './start.ts'
import { walProbeAnnotation, walProbeCommand, walProbeTiming } from './wal-probe.ts'

type Draft = Omit<StatefulSet, 'status'>
type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Container = PodSpec['containers'][number]

/** On a pod: the size it was started with. Where it differs from the database's, the pod is restarted. */
export const sizeAnnotation = 'espalier.dev/size'
/** On a pod: the uid of the volume claim it was made for. One that stands on another is restarted. */
export const volumeAnnotation = 'espalier.dev/volume'
/** On a pod: a digest of the template it was made from. A pod that does not run is made anew from a newer one. */
export const templateAnnotation = 'espalier.dev/template'
/** On a pod: the image as the installation names it, whatever digest that was pinned to. */
export const imageAnnotation = 'espalier.dev/image'
/** On a pod: a digest of what asked for its last restart. */
export const restartAnnotation = 'espalier.dev/restart'
/** On a pod: the maintenance window that it was last restarted in. */
export const maintenanceAnnotation = 'espalier.dev/maintenance'
export const prepareContainer = 'prepare'
export const postgresContainer = 'postgres'

const paths = {
  data: '/var/lib/espalier/data',
  configuration: '/etc/espalier/configuration',
  tls: '/etc/espalier/tls',
  sharedMemory: '/dev/shm',
  temporary: '/tmp',
  wal: `/var/lib/espalier/data/${dataDirectory}/pg_wal`,
  walProbeLock: '/dev/shm/espalier-wal-probe',
  log: `/var/lib/espalier/data/${logDirectory}`,
} as const

export const sizeText = (size: PinnedSize): string => `${size.name}-v${size.version}`

const resources = (shape: SizeShape): Container['resources'] => ({
  requests: { cpu: canonicalQuantity(shape.cpuRequest), memory: canonicalQuantity(shape.memoryRequest) },
  limits: { cpu: canonicalQuantity(shape.cpuLimit), memory: canonicalQuantity(shape.memoryLimit) },
})

const volumeMounts: Container['volumeMounts'] = [
  { name: 'data', mountPath: paths.data },
  { name: 'configuration', mountPath: paths.configuration, readOnly: true },
  { name: 'tls', mountPath: paths.tls, readOnly: true },
  { name: 'shared-memory', mountPath: paths.sharedMemory },
  { name: 'temporary', mountPath: paths.temporary },
]

const prepare = (image: string, shape: SizeShape): Container => ({
  name: prepareContainer,
  image,
  command: ['espalier', 'instance', 'prepare'],
  args: ['--data', paths.data, '--configuration', paths.configuration, '--tls', paths.tls],
  // A variable, since an image from before would not start with an argument that it does not know.
  env: [{ name: logVariable, value: paths.log }],
  resources: resources(shape),
  securityContext,
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts,
})

const postgres = (image: string, shape: SizeShape): Container => ({
  name: postgresContainer,
  image,
  command: startCommand(paths.data, postgresCommand(paths.data)),
  env: [{ name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } }],
  ports: [{ name: 'postgres', containerPort: postgresPort, protocol: 'TCP' }],
  resources: resources(shape),
  securityContext,
  // Recovery after a crash may take long; the postmaster listens all the while, so neither probe ends it.
  startupProbe: { tcpSocket: { port: postgresPort }, periodSeconds: 1, failureThreshold: 600, timeoutSeconds: 1 },
  // That the postmaster is gone needs no probe: the container ends with it.
  readinessProbe: { exec: { command: walProbeCommand(paths.wal, paths.walProbeLock) }, ...walProbeTiming },
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts,
})

/** What has asked for restarts, as a pod that was made since carries it. */
export type RestartMarks = { restart: string | undefined; maintenance: string | undefined }

type StatefulSetRequest = Member & {
  image: string
  size: PinnedSize
  shape: SizeShape
  /** The uid of the volume claim. */
  volume: string
  suspended: boolean
  pods: PodSettings
  role: Role
}

const podSpec = ({ owner, incarnation, number, image, shape, pods }: StatefulSetRequest): PodSpec => ({
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  securityContext: podSecurityContext,
  ...placementOf(pods),
  initContainers: [prepare(image, shape)],
  containers: [postgres(image, shape), agentContainer({ image, shape, data: paths.data, tls: paths.tls })],
  volumes: [
    { name: 'data', persistentVolumeClaim: { claimName: childNames.claim(owner.id, incarnation, number) } },
    { name: 'configuration', configMap: { name: childNames.configuration(owner.id, incarnation, number) } },
    // Postgres wants its key readable by nobody else; Kubernetes adds what the pod's group needs.
    { name: 'tls', secret: { secretName: childNames.tls(owner.id), defaultMode: 0o400 } },
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: canonicalQuantity(shape.sharedMemorySize) } },
    { name: 'temporary', emptyDir: { sizeLimit: canonicalQuantity(shape.temporaryDataSize) } },
    agentVolume,
  ],
})

/** The same, for a pod that has had these restarts. */
export function withMarks(draft: Draft, { restart, maintenance }: RestartMarks): Draft {
  if (draft.spec === undefined) return draft
  const { template } = draft.spec
  const annotations = {
    ...template.metadata?.annotations,
    ...(restart === undefined ? {} : { [restartAnnotation]: restart }),
    ...(maintenance === undefined ? {} : { [maintenanceAnnotation]: maintenance }),
  }
  return {
    ...draft,
    spec: { ...draft.spec, template: { ...template, metadata: { ...template.metadata, annotations } } },
  }
}

/** The same, with nothing running. */
export const withoutPod = (draft: Draft): Draft => {
  const { [draftAnnotation]: _, ...annotations } = draft.metadata.annotations ?? {}
  return stamped({
    ...draft,
    metadata: { ...draft.metadata, annotations },
    ...(draft.spec && { spec: { ...draft.spec, replicas: 0 } }),
  })
}

export function statefulSetDraft(request: StatefulSetRequest): Draft {
  const { owner, incarnation, number, image, size, volume, suspended, role } = request
  const selector = podSelector(request)
  const metadata = childMetadata(owner, childNames.statefulSet(owner.id, incarnation, number), 'postgres')
  const spec = podSpec(request)
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { ...metadata, labels: { ...metadata.labels, ...memberLabels(request) } },
    spec: {
      replicas: suspended ? 0 : 1,
      serviceName: childNames.service(owner.id),
      updateStrategy: { type: 'OnDelete' },
      selector: { matchLabels: selector },
      template: {
        metadata: {
          labels: { ...childLabels(owner, 'postgres'), ...selector, [labels.role]: role },
          annotations: {
            [sizeAnnotation]: sizeText(size),
            [volumeAnnotation]: volume,
            [templateAnnotation]: digestOf(spec),
            [imageAnnotation]: image,
            [walProbeAnnotation]: 'true',
          },
        },
        spec,
      },
    },
  }
}
