/**
 * The agents beside databases. The API shows the certificate that the operator issued to it, and verifies that the agent's is of the
 * very instance that it means.
 */
import type { Cluster } from '../cluster/index.ts'
import { childNames, systemNamespace } from '../crds/index.ts'
import { agentPort } from '../instance/agent/contract.ts'
import { systemCertificates } from '../sealing/credentials.ts'
import { getJson } from './json-request.ts'

/** Where a port of a Service is found; undefined where nothing runs behind it. */
export type ResolveService = (target: {
  namespace: string
  service: string
  port: number
}) => { host: string; port: number } | undefined

/** As the cluster's own DNS has it. */
export const resolveByName: ResolveService = ({ namespace, service, port }) => ({
  host: `${service}.${namespace}.svc`,
  port,
})

/** A database or a branch, by what its agent is found. */
export type Instance = { id: string; namespace: string }

export type Agents = {
  /** What an agent answers, as JSON that nobody has checked. @throws where it does not, or otherwise than with 200 */
  ask(instance: Instance, path: string, mostBytes: number): Promise<unknown>
}

/** What an agent has answered, if it is the one that was meant. @throws where it is another's */
export function ofInstance<T extends { id: string }>(answer: T, { id }: Instance): T {
  if (answer.id !== id) throw new Error(`the agent is that of ${answer.id.slice(0, 40)}`)
  return answer
}

const timeoutMs = 5_000
/** Certificates are renewed long before they end. */
const certificateMs = 60_000

type Credentials = { cert: string; key: string; ca: string }

export function createAgents(cluster: Cluster, resolve: ResolveService, now: () => number): Agents {
  let known: { until: number; credentials: Promise<Credentials> } | undefined

  async function readCredentials(): Promise<Credentials> {
    const name = systemCertificates.apiClient
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name })
    const text = (key: string) => Buffer.from(secret?.data?.[key] ?? '', 'base64').toString('utf8')
    if (secret === undefined) throw new Error(`the Secret ${name} is not there yet`)
    return { cert: text('tls.crt'), key: text('tls.key'), ca: text('ca.crt') }
  }
  async function credentials(): Promise<Credentials> {
    if (known === undefined || known.until <= now())
      known = { until: now() + certificateMs, credentials: readCredentials() }
    try {
      return await known.credentials
    } catch (error) {
      known = undefined
      throw error
    }
  }

  return {
    async ask({ id, namespace }, path, mostBytes) {
      const service = childNames.service(id)
      const address = resolve({ namespace, service, port: agentPort })
      if (address === undefined) throw new Error('nothing runs')
      return getJson({
        ...{ secure: true, ...address, ...(await credentials()), minVersion: 'TLSv1.2', timeoutMs, mostBytes },
        servername: `${service}.${namespace}.svc`,
        path,
      })
    },
  }
}
