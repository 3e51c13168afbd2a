/** Every field of every child of a database, changed, removed and added to by another manager. */
import { describe, test } from 'vitest'
import type { KindName } from '../../cluster/index.ts'
import { childNames, type ManagedDatabase, systemNamespace } from '../../crds/index.ts'
import { podSettings } from '../pod-settings.ts'
import { type Child, sweepMs, useDriftSweep } from '../testing/drift-sweep.ts'
import { condition, useInstallation } from '../testing/fixture.ts'
import { testNamespace } from '../testing/installation.ts'

const it = useInstallation({ configuration: { pods: podSettings.parse({ disruptionBudget: true }) } })
const sweep = useDriftSweep(it)
const open = { ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }

/** The children that clients depend on, as the cluster has them. */
async function childrenOf(database: ManagedDatabase): Promise<Record<string, Child>> {
  const id = await it.idOf(database.metadata.name)
  const here = (kind: KindName, name: string): Child => ({ kind, key: { namespace: testNamespace, name } })
  const claim = await it.cluster().get('PersistentVolumeClaim', here('Pod', childNames.claim(id, 1)).key)
  return {
    Service: here('Service', childNames.service(id)),
    NetworkPolicy: here('NetworkPolicy', childNames.service(id)),
    PodDisruptionBudget: here('PodDisruptionBudget', childNames.service(id)),
    configuration: here('ConfigMap', childNames.configuration(id, 1)),
    StatefulSet: here('StatefulSet', childNames.statefulSet(id, 1)),
    Pod: here('Pod', childNames.pod(id, 1)),
    credentials: here('Secret', childNames.credentials(id)),
    tls: here('Secret', childNames.tls(id)),
    PersistentVolumeClaim: here('PersistentVolumeClaim', childNames.claim(id, 1)),
    PersistentVolume: { kind: 'PersistentVolume', key: { name: claim?.spec?.volumeName ?? '' } },
    route: {
      kind: 'ConfigMap',
      key: { namespace: systemNamespace, name: `route-${database.status?.endpoint?.port}` },
    },
  }
}

describe('a change by another manager to', () => {
  const parts = [
    'Service',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'configuration',
    'route',
    'StatefulSet',
    'tls',
    'credentials',
    'Pod',
    'PersistentVolumeClaim',
    'PersistentVolume',
  ]
  test.each(parts.map((what, index) => [what, index] as const))(
    'the %s is reverted',
    async (what, index) => {
      const name = `swept${what.toLowerCase()}`
      await it.create(name, open)
      const isReconciled = (found: ManagedDatabase) =>
        condition(found, 'Ready')?.status === 'True' && found.status?.operation === undefined
      const database = await it.when(name, isReconciled)
      await sweep(database, await childrenOf(database), what, index)
    },
    sweepMs,
  )
})
