/** Reads a service's samples from each of the servers in its pods (ADR 0086). */
import { isIP } from 'node:net'
import { z } from 'zod'
import type { Cluster, Kinds } from '../../cluster/index.ts'
import type { ServiceType } from '../../crds/index.ts'
import { commonMeasures, durationNames, ownMeasures, samplesPath, samplesPortPattern } from '../../server/samples.ts'
import type { Instance } from '../agents.ts'
import { getJson } from '../json-request.ts'
import { servicePods } from '../service-pods.ts'
import type { SampledProcess } from './service-series.ts'

const mostBytes = 512 * 1024
const timeoutMs = 3_000
/** The maximum number of processes in a pod. */
const mostProcesses = 2

const row = z.array(z.number().nullable()).max(101)
const answer = z.object({
  id: z.string(),
  names: z.array(z.string().max(64)).max(100),
  samples: z.array(row).max(1000),
})
type Answer = z.infer<typeof answer>

export type ServiceSource = {
  /**
   * `unread`: why servers that should respond did not respond. Pods that are older than service metrics do not have the
   * port.
   */
  read(owner: Instance, service: ServiceType): Promise<{ processes: SampledProcess[]; unread: unknown[] }>
}

function samplesIn({ names, samples }: Answer, service: ServiceType): SampledProcess['samples'] {
  const measures = new Set<string>([...commonMeasures, ...durationNames, ...ownMeasures[service]])
  const columns = names.flatMap((name, index) => (measures.has(name) ? [{ name, index: index + 1 }] : []))
  return samples.flatMap(values => {
    const [at] = values
    if (typeof at !== 'number') return []
    return [{ at, values: Object.fromEntries(columns.map(({ name, index }) => [name, values[index] ?? null])) }]
  })
}

/** The addresses at which a pod's servers return samples. */
function targetsOf({ metadata, spec, status }: Kinds['Pod']) {
  const host = status?.podIP ?? ''
  if (status?.phase !== 'Running' || isIP(host) === 0) return []
  const ports = (spec?.containers ?? []).flatMap(container => container.ports ?? [])
  return ports
    .filter(({ name = '' }) => samplesPortPattern.test(name))
    .slice(0, mostProcesses)
    .map(({ containerPort: port }) => ({ pod: metadata.name, host, port }))
}

export function createServiceSource(cluster: Cluster): ServiceSource {
  async function readProcess(
    owner: Instance,
    service: ServiceType,
    { pod, ...address }: ReturnType<typeof targetsOf>[number],
  ) {
    const read = answer.parse(await getJson({ secure: false, ...address, path: samplesPath, timeoutMs, mostBytes }))
    // Since the list was read, the address may have passed to another pod.
    if (read.id !== owner.id) throw new Error(`the samples belong to ${read.id.slice(0, 40)}`)
    return { pod, samples: samplesIn(read, service) }
  }
  return {
    async read(owner, service) {
      const pods = await servicePods(cluster, owner, service)
      const answers = await Promise.allSettled(
        pods.flatMap(targetsOf).map(target => readProcess(owner, service, target)),
      )
      return {
        processes: answers.flatMap(one => (one.status === 'fulfilled' ? [one.value] : [])),
        unread: answers.flatMap(one => (one.status === 'rejected' ? [one.reason] : [])),
      }
    },
  }
}
