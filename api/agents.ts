/**
 * Client of the agents beside databases. The API presents the certificate that the operator issued to it. It verifies
 * that the agent's certificate belongs to the intended instance.
 */
import type { Cluster } from '../cluster/index.ts'
import { childNames, systemNamespace } from '../crds/index.ts'
import { agentPort } from '../instance/agent/contract.ts'
import { systemCertificates } from '../sealing/credentials.ts'
import { getJson } from './json-request.ts'

/** The address of a Service's port; undefined if no pod runs behind it. */
export type ResolveService = (target: {
  namespace: string
  service: string
  port: number
}) => { host: string; port: number } | undefined

/** The Service's address in the cluster's DNS. */
export const resolveByName: ResolveService = ({ namespace, service, port }) => ({
  host: `${service}.${namespace}.svc`,
  port,
})

/** A database or a branch, with the names that locate its agent. */
export type Instance = { id: string; namespace: string }

export type Agents = {
  /** Returns an agent's response as unvalidated JSON. @throws if the agent does not answer with 200 */
  read(instance: Instance, path: string, mostBytes: number): Promise<unknown>
}

/** Returns the response if it is from the expected agent. @throws if it is from another agent */
export function ofInstance<T extends { id: string }>(answer: T, { id }: Instance): T {
  if (answer.id !== id) throw new Error(`the agent belongs to ${answer.id.slice(0, 40)}`)
  return answer
}

const timeoutMs = 5_000
/** How long a certificate is cached. The operator renews certificates long before they expire. */
const certificateMs = 60_000

type Credentials = { cert: string; key: string; ca: string }

export function createAgents(cluster: Cluster, resolve: ResolveService, now: () => number): Agents {
  let known: { until: number; credentials: Promise<Credentials> } | undefined

  async function readCredentials(): Promise<Credentials> {
    const name = systemCertificates.apiClient
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name })
    const text = (key: string) => Buffer.from(secret?.data?.[key] ?? '', 'base64').toString('utf8')
    if (secret === undefined) throw new Error(`the Secret ${name} does not exist yet`)
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
    async read({ id, namespace }, path, mostBytes) {
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
