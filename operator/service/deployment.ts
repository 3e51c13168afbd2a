/**
 * The Deployment of a service. Its name ends with a digest of the pod template and the configuration. So a change
 * creates another Deployment beside the old one, and a Deployment does not change while it serves. The pod meets the
 * "restricted" Pod Security Standard.
 */
import type { Deployment, Draft } from '../../cluster/index.ts'
import { childNames, labels } from '../../crds/index.ts'
import { canonicalQuantity } from '../../values/quantity.ts'
import { podSecurityContext, securityContext } from '../member/pod/security.ts'
import { childLabels, childMetadata, type Owner } from '../objects/ownership.ts'
import { digestOf } from '../objects/up-to-date.ts'
import type { PodSettings } from '../pod-settings.ts'
import {
  configurationDirectory,
  type ServiceContainer,
  type ServiceResources,
  type ServiceType,
} from './configuration/index.ts'
import { serviceComponent, servicePodLabels } from './names.ts'
import type { RenderedPod } from './observed.ts'
import { placementOfServices } from './placement.ts'

type PodSpec = NonNullable<NonNullable<Deployment['spec']>['template']['spec']>
type Container = PodSpec['containers'][number]

/** How long a pod that is being deleted still serves, until gateways have stopped sending requests to it. */
const drainSeconds = 5
/** How long a Deployment may make no progress before its service counts as failed. */
export const progressSeconds = 60
/**
 * Annotation of the Deployment of `rest`: its role for requests without a token. The role is granted as long as the
 * Deployment exists.
 */
export const anonymousRoleAnnotation = 'espalier.dev/anonymous-role'
/**
 * Annotation of the Deployment of `mcp`: each pod keeps its own conversations, because a user created a role or
 * database with the name that the operator needs.
 */
export const ownStateAnnotation = 'espalier.dev/own-state'
const digestDigits = 10

type Workload = {
  owner: Owner
  type: ServiceType
  image: string
  pod: RenderedPod
  pods: PodSettings
  replicas: number
  anonymousRole: string | undefined
  /** Members of the database, by their pods' names, and nodes. The pods are scheduled near these if possible. */
  hostIds?: readonly string[] | undefined
  keepsOwnState: boolean
}

/** The Secret name in the template whose digest is computed. The real Secret name contains the digest. */
const anySecret = 'configuration'

/** The digest in a workload's name. It does not depend on the number of pods. */
export const workloadDigest = (workload: Omit<Workload, 'replicas'>): string =>
  digestOf({ spec: podSpec(workload, anySecret), content: workload.pod.contentDigest }).slice(0, digestDigits)

export function deploymentDraft(workload: Workload, digest: string): Draft<'Deployment'> {
  const { owner, type, replicas, anonymousRole, keepsOwnState } = workload
  const name = childNames.serviceWorkload(owner.id, type, digest)
  const workloadLabels = { [labels.service]: type, [labels.configuration]: digest }
  const metadata = childMetadata(owner, name, serviceComponent)
  const spec = podSpec(workload, name)
  const spread = {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'ScheduleAnyway' as const,
    labelSelector: { matchLabels: { ...servicePodLabels(owner, type), ...workloadLabels } },
  }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, ...workloadLabels },
      annotations: {
        ...metadata.annotations,
        ...(anonymousRole === undefined ? {} : { [anonymousRoleAnnotation]: anonymousRole }),
        ...(keepsOwnState ? { [ownStateAnnotation]: 'true' } : {}),
      },
    },
    spec: {
      replicas,
      revisionHistoryLimit: 0,
      progressDeadlineSeconds: progressSeconds,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      selector: { matchLabels: { ...servicePodLabels(owner, type), ...workloadLabels } },
      template: {
        metadata: {
          labels: { ...childLabels(owner, serviceComponent), ...servicePodLabels(owner, type), ...workloadLabels },
        },
        spec: { ...spec, topologySpreadConstraints: [spread] },
      },
    },
  }
}

const podSpec = ({ owner, image, pod, pods, hostIds }: Omit<Workload, 'replicas'>, secretName: string): PodSpec => ({
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  securityContext: podSecurityContext,
  ...placementOfServices(pods, owner, hostIds),
  terminationGracePeriodSeconds: pod.terminationGracePeriodSeconds + drainSeconds,
  containers: pod.containers.map(container => containerOf(container, { owner, image, writable: pod.writable })),
  volumes: [
    { name: 'configuration', secret: { secretName, defaultMode: 0o440 } },
    ...pod.writable.map((_, index) => ({ name: writableVolume(index), emptyDir: {} })),
  ],
})

const writableVolume = (index: number): string => `writable-${index}`

type Pod = { owner: Owner; image: string; writable: readonly string[] }

function containerOf(container: ServiceContainer, { owner, image, writable }: Pod): Container {
  const { name, args, environment, ports, startupProbe, readinessProbe, resources } = container
  return {
    name,
    image,
    command: ['espalier'],
    args: [...args],
    env: [
      { name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } },
      ...Object.entries(environment).map(([name, value]) => ({ name, value })),
      // When the API requests samples, the address may already belong to another pod. So samples contain the name of
      // their pod.
      { name: 'ESPALIER_SAMPLES_ID', value: owner.id },
    ],
    ports: ports.map(({ name, port }) => ({ name, containerPort: port, protocol: 'TCP' })),
    resources: canonicalResources(resources),
    securityContext,
    startupProbe: overHttp(startupProbe),
    readinessProbe: overHttp(readinessProbe),
    lifecycle: { preStop: { exec: { command: ['sleep', String(drainSeconds)] } } },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      { name: 'configuration', mountPath: configurationDirectory, readOnly: true },
      ...writable.map((mountPath, index) => ({ name: writableVolume(index), mountPath })),
    ],
  }
}

const overHttp = ({ httpGet, ...times }: ServiceContainer['startupProbe']) => ({
  httpGet: { ...httpGet, scheme: 'HTTP' },
  ...times,
})

const canonicalResources = ({ requests, limits }: ServiceResources): Container['resources'] => ({
  requests: { cpu: canonicalQuantity(requests.cpu), memory: canonicalQuantity(requests.memory) },
  limits: Object.fromEntries(
    Object.entries(limits).flatMap(([name, value]) => (value === undefined ? [] : [[name, canonicalQuantity(value)]])),
  ),
})
