/** The newest entries of a service's output. Each line is JSON as pino writes it, or other text. */
import type { Cluster } from '../../cluster/index.ts'
import type { ServiceType } from '../../crds/index.ts'
import { type LogEntry, newestFirst } from '../../instance/log/entry.ts'
import { presented } from '../../instance/log/present.ts'
import { isRecord } from '../../values/record.ts'
import type { Instance } from '../agents.ts'
import { servicePods } from '../service-pods.ts'
import { newestEntries, type Output, type Window } from './printed.ts'

/** The containers of a service's pod. */
const containers: Record<ServiceType, readonly string[]> = {
  mcp: ['tools', 'bridge'],
  rest: ['rest'],
  rag: ['rag'],
}

const levels: Record<number, string> = {
  10: 'DEBUG',
  20: 'DEBUG',
  30: 'INFO',
  40: 'WARNING',
  50: 'ERROR',
  60: 'FATAL',
}

function parsed(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Lines as the cluster returns them, each after its time. */
export const serviceEntriesOf = (lines: readonly string[]): LogEntry[] =>
  lines.flatMap(line => {
    const space = line.indexOf(' ')
    const at = Date.parse(line.slice(0, space))
    const text = line.slice(space + 1)
    if (Number.isNaN(at) || text === '') return []
    const timestamp = new Date(at).toISOString()
    const found = parsed(text)
    if (found === undefined) return [presented({ timestamp, level: 'LOG', message: text })]
    return [presented({ timestamp, ...entryOf(found) })]
  })

function entryOf({ level, time: _time, pid, hostname: _host, msg, err, ...others }: Record<string, unknown>) {
  const cause = isRecord(err) ? err.message : err
  return {
    level: (typeof level === 'number' ? levels[level] : String(level ?? '').toUpperCase()) || 'LOG',
    message: typeof msg === 'string' ? msg : '',
    ...(typeof pid === 'number' && Number.isInteger(pid) ? { pid } : {}),
    ...(typeof cause === 'string' ? { detail: cause } : {}),
    ...(Object.keys(others).length === 0 ? {} : { context: JSON.stringify(others) }),
  }
}

/** Newest first. @throws ClusterError if the cluster cannot return the log */
export async function readService(
  cluster: Cluster,
  owner: Instance,
  service: ServiceType,
  window: Window,
): Promise<LogEntry[]> {
  const outputs = containers[service].flatMap((container): Output[] => [{ container }, { container, previous: true }])
  const entries: LogEntry[] = []
  // One after another: each may be some megabytes.
  for (const { metadata } of await servicePods(cluster, owner, service))
    for (const output of outputs) {
      const pod = { namespace: owner.namespace, name: metadata.name }
      entries.push(...(await newestEntries(cluster, pod, output, window, serviceEntriesOf)))
    }
  return newestFirst(entries).slice(0, window.maxLines)
}
