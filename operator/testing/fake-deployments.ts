/**
 * Does what Kubernetes does with the Deployments of services, without running a program. They get their pods, which
 * become ready at once, or when a test permits it, or crash repeatedly.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { type Cluster, type Deployment, isClusterError, type Pod } from '../../cluster/index.ts'
import { createInformer, keyOf } from '../../cluster/informer/index.ts'
import { labels } from '../../crds/index.ts'
import { digestOf } from '../objects/up-to-date.ts'

type Behaviour = 'ready' | 'starting' | 'crashing'

export type FakeDeployments = {
  /** From now on, new pods of this service behave this way. With `all`, existing pods, too. */
  behave(type: string, behaviour: Behaviour, options?: { all?: boolean }): void
  stop(): Promise<void>
}

const retryMs = 20
const labelled = { labels: { [labels.service]: true } } as const

export async function startFakeDeployments({
  cluster,
  logger,
}: {
  cluster: Cluster
  logger: Logger
}): Promise<FakeDeployments> {
  const quiet = logger.child({ part: 'fake-deployments' })
  const deployments = createInformer(cluster, 'Deployment', { ...labelled, logger: quiet })
  const behaviours = new Map<string, Behaviour>()
  /** The behaviour of each Deployment's pods, by uid. */
  const ofDeployments = new Map<string, Behaviour>()
  const chains = new Map<string, Promise<void>>()
  let stopped = false

  const serially = (key: string, work: () => Promise<void>): void => {
    const next = (chains.get(key) ?? Promise.resolve()).then(async () => {
      while (!stopped) {
        try {
          return await work()
        } catch (error) {
          quiet.warn({ key, err: error }, 'the fake Deployments retry')
          await delay(retryMs)
        }
      }
    })
    chains.set(key, next)
  }

  const reconcile = async ({ metadata }: Deployment): Promise<void> => {
    const { namespace, name } = metadata
    const deployment = await cluster.get('Deployment', { namespace, name })
    const { items } = await cluster.list('Pod', { namespace, labels: { [deploymentLabel]: name } })
    const replicas = deployment?.spec?.replicas ?? 1
    const isWanted = (pod: Pod) =>
      deployment !== undefined &&
      Number(pod.metadata.name.slice(name.length + 1)) < replicas &&
      pod.metadata.annotations?.[templateAnnotation] === templateOf(deployment)
    for (const pod of items.filter(pod => !isWanted(pod)))
      await cluster.delete('Pod', { namespace, name: pod.metadata.name }, { uid: pod.metadata.uid })
    if (deployment === undefined) return
    const type = metadata.labels?.[labels.service] ?? ''
    const behaviour = ofDeployments.get(metadata.uid ?? '') ?? behaviours.get(type) ?? 'ready'
    ofDeployments.set(metadata.uid ?? '', behaviour)
    const refusal = await runPods(deployment, replicas, behaviour)
    const status = {
      observedGeneration: deployment.metadata.generation ?? 0,
      replicas,
      readyReplicas: behaviour === 'ready' && refusal === undefined ? replicas : 0,
      ...(refusal === undefined ? {} : { conditions: [replicaFailure(refusal.message)] }),
    }
    if (!isDeepStrictEqual(status, deployment.status))
      await cluster.replaceStatus('Deployment', { ...deployment, status })
    if (refusal !== undefined) throw refusal
  }

  /** Runs the pods of a Deployment. Returns why the cluster refuses a pod, such as a quota. */
  const runPods = async (
    deployment: Deployment,
    replicas: number,
    behaviour: Behaviour,
  ): Promise<Error | undefined> => {
    try {
      for (let number = 0; number < replicas; number++) await runPod(deployment, number, behaviour)
      return undefined
    } catch (error) {
      if (isClusterError(error, 'Forbidden')) return error
      throw error
    }
  }

  const runPod = async (deployment: Deployment, number: number, behaviour: Behaviour): Promise<void> => {
    const { namespace, name } = deployment.metadata
    const key = { namespace, name: `${name}-${number}` }
    const found = await cluster.get('Pod', key)
    const { template } = deployment.spec ?? {}
    const pod =
      found ??
      (await cluster.create('Pod', {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: {
          ...key,
          labels: { ...template?.metadata?.labels, [deploymentLabel]: name },
          annotations: { [templateAnnotation]: templateOf(deployment) },
          ownerReferences: [
            { apiVersion: 'apps/v1', kind: 'Deployment', name, uid: deployment.metadata.uid ?? '', controller: true },
          ],
        },
        ...(template?.spec === undefined ? {} : { spec: { ...template.spec, nodeName: 'fake' } }),
      }))
    const status = statusOf(behaviour)
    if (pod.status?.containerStatuses?.[0]?.restartCount === status.containerStatuses?.[0]?.restartCount) return
    await cluster.replaceStatus('Pod', { ...pod, status })
  }

  deployments.onChange(({ object }) => serially(keyOf(object), () => reconcile(object)))
  await deployments.start()
  return {
    behave: (type, behaviour, { all = false } = {}) => {
      behaviours.set(type, behaviour)
      for (const deployment of deployments.list()) {
        if (deployment.metadata.labels?.[labels.service] !== type) continue
        if (all) ofDeployments.set(deployment.metadata.uid ?? '', behaviour)
        serially(keyOf(deployment), () => reconcile(deployment))
      }
    },
    stop: async () => {
      stopped = true
      await deployments.stop()
      await Promise.all(chains.values())
    },
  }
}

const deploymentLabel = 'testing.espalier.dev/deployment'
/** Annotation of a pod: a digest of its template. A pod of another template is replaced. */
export const templateAnnotation = 'testing.espalier.dev/template'
const templateOf = ({ spec }: Deployment): string => digestOf(spec?.template)

/** The status that the Deployment controller writes while the cluster refuses the pods. */
const replicaFailure = (message: string) => ({
  ...{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message },
})

const statusOf = (behaviour: Behaviour): NonNullable<Pod['status']> => {
  const container = { name: 'server', image: 'fake', imageID: 'fake', started: true }
  if (behaviour === 'crashing')
    return {
      phase: 'Running',
      containerStatuses: [
        {
          ...{ ...container, ready: false, restartCount: 3, state: { waiting: { reason: 'CrashLoopBackOff' } } },
          lastState: { terminated: { exitCode: 1, message: 'the configuration is wrong' } },
        },
      ],
    }
  const isReady = behaviour === 'ready'
  return {
    phase: 'Running',
    podIP: '10.0.0.2',
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
    containerStatuses: [{ ...container, ready: isReady, restartCount: isReady ? 0 : 1 }],
  }
}
