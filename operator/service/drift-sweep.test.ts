/** Another manager changes, removes and adds every field of every child of a database's services. */
import { describe, test } from 'vitest'
import type { KindName } from '../../cluster/index.ts'
import { childNames, labels, type ManagedDatabase, type ServiceConfig, systemNamespace } from '../../crds/index.ts'
import { httpRouteName } from '../../routes/route.ts'
import { type Child, sweepMs, useDriftSweep } from '../testing/drift-sweep.ts'
import { useInstallation } from '../testing/fixture.ts'
import { testConfiguration, testNamespace } from '../testing/installation.ts'
import { serviceSettings } from './settings.ts'

const images = { ...testConfiguration.images, services: 'espalier' }
// With two pods, the service has a disruption budget.
const services = serviceSettings.parse({ replicas: { rest: 2 } })
const it = useInstallation({ configuration: { images, services } })
const sweep = useDriftSweep(it)
const open = { rules: [{ cidr: '203.0.113.0/24' }] }
const rest: ServiceConfig = {
  ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist: open },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
}

/** The children in the cluster that clients of the service depend on. */
async function childrenOf(database: ManagedDatabase): Promise<Record<string, Child>> {
  const id = await it.idOf(database.metadata.name)
  const here = (kind: KindName, name: string): Child => ({ kind, key: { namespace: testNamespace, name } })
  const { items } = await it.cluster().list('Deployment', { labels: { [labels.database]: id } })
  const workload = items[0]?.metadata.name ?? ''
  const address = childNames.serviceAddress(id, 'rest')
  return {
    Deployment: here('Deployment', workload),
    Service: here('Service', address),
    NetworkPolicy: here('NetworkPolicy', address),
    PodDisruptionBudget: here('PodDisruptionBudget', address),
    files: here('Secret', workload),
    token: here('Secret', childNames.serviceSecret(id, rest.serviceId)),
    Pod: here('Pod', `${workload}-0`),
    route: {
      kind: 'ConfigMap',
      key: { namespace: systemNamespace, name: httpRouteName(database.status?.domain ?? '') },
    },
  }
}

describe('a change by another manager to', () => {
  const parts = ['Deployment', 'Service', 'NetworkPolicy', 'PodDisruptionBudget', 'files', 'token', 'route']
  test.each(parts.map((what, index) => [what, index] as const))(
    'the %s of a service is reverted',
    async (what, index) => {
      const name = `swept${what.toLowerCase()}`
      await it.create(name, { services: [rest] })
      const isReconciled = ({ status }: ManagedDatabase) =>
        status?.services?.every(({ state }) => state === 'running') === true && status.operation === undefined
      const database = await it.when(name, isReconciled)
      await sweep(database, await childrenOf(database), what, index)
    },
    sweepMs,
  )
})
