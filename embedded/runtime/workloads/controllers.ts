/**
 * Executes the plans for StatefulSets, Deployments and Jobs. Every change of such a workload or of its pods causes one
 * pass.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { type Cluster, isClusterError, type ObjectKey, type Pod } from '../../../cluster/index.ts'
import { type Informer, keyText, parseKey } from '../../../cluster/informer/index.ts'
import { type Controller, type ReconcileResult, startController } from '../../../controller/index.ts'
import { planDeployment, withFailure } from './deployment.ts'
import { type JobLimits, planJob } from './job.ts'
import { planStatefulSet } from './stateful-set.ts'
import { isOwnedBy, type PodAction, type Workload } from './template.ts'

type WorkloadsOptions = {
  cluster: Cluster
  pods: Informer<'Pod'>
  statefulSets: Informer<'StatefulSet'>
  deployments: Informer<'Deployment'>
  jobs: Informer<'Job'>
  nodeName: string
  jobLimits: JobLimits
  logger: Logger
  now: () => number
  random: () => number
}

/** Name of the pods' index by the uid of the owning workload. */
export const ownerIndex = 'owner'
export const ownersOf = (pod: Pod): string[] =>
  pod.metadata.ownerReferences?.flatMap(({ controller, uid }) => (controller === true ? [uid] : [])) ?? []

export function startWorkloads(options: WorkloadsOptions): { stop(): Promise<void> } {
  const { cluster, pods, nodeName, now, random } = options

  const podsOf = (owner: Workload): Pod[] =>
    pods.byIndex(ownerIndex, owner.metadata.uid ?? '').filter(pod => isOwnedBy(pod, owner))

  async function perform(actions: PodAction[]): Promise<void> {
    for (const action of actions) {
      if (action.do === 'create') pods.writeThrough(await cluster.create('Pod', action.pod))
      else {
        const { namespace, name, uid } = action.pod.metadata
        await cluster.delete('Pod', { namespace, name }, { uid })
      }
    }
  }

  /** One pass over one workload. A conflict means that the cache was stale; the missing change causes another pass. */
  async function pass<W extends Workload>(informer: Source<W>, key: ObjectKey, act: Act<W>): Promise<ReconcileResult> {
    const workload = informer.get(key)
    if (workload === undefined) return undefined
    try {
      return await act(workload, podsOf(workload))
    } catch (error) {
      if (isClusterError(error, 'NotFound')) return undefined
      throw error
    }
  }

  const { statefulSets, deployments, jobs } = options
  const controllers = [
    run(options, 'stateful-sets', statefulSets, key =>
      pass(statefulSets, key, async (set, owned) => {
        const { actions, status } = planStatefulSet(set, owned, nodeName)
        await perform(actions)
        if (!isDeepStrictEqual(status, set.status)) {
          statefulSets.writeThrough(await cluster.replaceStatus('StatefulSet', { ...set, status }))
        }
        return undefined
      }),
    ),
    run(options, 'deployments', deployments, key =>
      pass(deployments, key, async (deployment, owned) => {
        const plan = planDeployment({ deployment, pods: owned, nodeName, now: now(), random })
        const refusal = await refusalOf(perform(plan.actions))
        const status = refusal === undefined ? plan.status : withFailure(plan.status, deployment, refusal, now())
        if (!isDeepStrictEqual(status, deployment.status)) {
          deployments.writeThrough(await cluster.replaceStatus('Deployment', { ...deployment, status }))
        }
        if (refusal !== undefined) throw refusal
        return { requeueAfterMs: plan.requeueAfterMs }
      }),
    ),
    run(options, 'jobs', jobs, key =>
      pass(jobs, key, async (job, owned) => {
        const plan = planJob({ job, pods: owned, nodeName, now: now(), random, limits: options.jobLimits })
        if (plan.expired) {
          await cluster.delete('Job', key, { uid: job.metadata.uid })
          return undefined
        }
        await perform(plan.actions)
        if (!isDeepStrictEqual(plan.status, job.status ?? {})) {
          jobs.writeThrough(await cluster.replaceStatus('Job', { ...job, status: plan.status }))
        }
        return { requeueAfterMs: plan.requeueAfterMs }
      }),
    ),
  ]
  return {
    async stop() {
      await Promise.all(controllers.map(controller => controller.stop()))
    },
  }
}

/** The cluster's error if it refuses a pod, for example because of a quota. */
async function refusalOf(performed: Promise<void>): Promise<Error | undefined> {
  try {
    await performed
    return undefined
  } catch (error) {
    if (isClusterError(error, 'Forbidden', 'Invalid')) return error
    throw error
  }
}

type Source<W> = { get(key: ObjectKey): W | undefined }
type Act<W> = (workload: W, pods: Pod[]) => Promise<ReconcileResult>

/** A controller of one kind, triggered by its objects and the pods that they own. */
function run(
  { pods, logger }: WorkloadsOptions,
  name: string,
  informer: {
    list(): Workload[]
    onChange(handler: (change: { object: Workload }) => void): () => void
  },
  reconcile: (key: ObjectKey) => Promise<ReconcileResult>,
): { stop(): Promise<void> } {
  const controller: Controller = startController({
    name,
    workers: 4,
    reconcile: text => reconcile(parseKey(text)),
    keys: () => informer.list().map(object => keyText(object.metadata)),
    logger,
  })
  const kind = { 'stateful-sets': 'StatefulSet', deployments: 'Deployment', jobs: 'Job' }[name]
  const unsubscribes = [
    informer.onChange(({ object }) => controller.enqueue(keyText(object.metadata))),
    pods.onChange(({ object }) => {
      for (const owner of object.metadata.ownerReferences ?? []) {
        if (owner.controller !== true || owner.kind !== kind) continue
        controller.enqueue(keyText({ namespace: object.metadata.namespace, name: owner.name }))
      }
    }),
  ]
  return {
    async stop() {
      for (const unsubscribe of unsubscribes) unsubscribe()
      await controller.stop()
    },
  }
}
