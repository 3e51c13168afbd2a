/** Helpers for tests of branches. Helpers for databases are in fixture.ts. */
import { afterEach, beforeAll } from 'vitest'
import type { Draft, KindName, Kinds } from '../../cluster/index.ts'
import { apiVersion, type Branch, childNames, labels } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { NamedChild, useInstallation } from './fixture.ts'
import { eventually, giveSnapshots, testNamespace } from './installation.ts'

/** A branch as `kubectl apply` sends it. `id`: the label that the API would set. */
export function branchDraft(
  name: string,
  database: { name: string; id: string },
  spec: Partial<Branch['spec']> = {},
  id?: string,
): Draft<'Branch'> {
  return {
    apiVersion,
    kind: 'Branch',
    metadata: { name, namespace: testNamespace, ...(id === undefined ? {} : { labels: { [labels.id]: id } }) },
    spec: {
      databaseName: database.name,
      databaseId: database.id,
      depth: 1,
      region: 'here',
      size: { name: 'small', version: 1 },
      pgVersion: '18',
      ipAllowlist: { rules: [{ cidr: '198.51.100.0/24' }] },
      services: [],
      options: [],
      ...spec,
    },
  }
}

export const at = (name: string) => ({ namespace: testNamespace, name })
export const reasonOf = (branch: Branch | undefined) => conditionOf(branch?.status, 'Ready')?.reason

/** For an installation whose volumes can have snapshots. After each test, snapshots work normally again. */
export function useBranches(it: ReturnType<typeof useInstallation>) {
  beforeAll(() => giveSnapshots(it.cluster()))
  afterEach(() => {
    const { snapshots } = it.workload()
    snapshots.making = { mode: 'making' }
    snapshots.deleting = 'deleting'
    it.workload().resnapshot()
    it.workload().refuse(false)
    it.workload().volumes.unprovisioned = () => undefined
    it.gateway().pause(false)
  })

  const get = (name: string) => it.cluster().get('Branch', at(name))
  const when = async (name: string, isExpected: (branch: Branch) => boolean): Promise<Branch> => {
    const found = await eventually(
      () => get(name),
      branch => branch !== undefined && isExpected(branch),
    )
    if (found === undefined) throw new Error(`there is no branch ${name}`)
    return found
  }
  const idOf = async (name: string): Promise<string> => (await get(name))?.metadata.labels?.[labels.id] ?? ''
  const request = async (name: string, database: string, spec: Partial<Branch['spec']> = {}) => {
    await it.cluster().create('Branch', branchDraft(name, { name: database, id: await it.idOf(database) }, spec))
  }
  const isPhase = (phase: string) => (branch: Branch) => branch.status?.phase === phase
  const child = async <K extends KindName>(kind: K, name: string, which: NamedChild) =>
    it.cluster().get(kind, at(childNames[which](await idOf(name), 1))) as Promise<Kinds[K] | undefined>

  return {
    get,
    when,
    request,
    idOf,
    child,
    isPhase,
    made: async (name: string, database: string, spec: Partial<Branch['spec']> = {}): Promise<Branch> => {
      await request(name, database, spec)
      return when(name, branch => isPhase('available')(branch) && branch.status?.operation === undefined)
    },
    /** Requests the deletion like the API. */
    remove: async (name: string) => {
      const branch = await get(name)
      if (branch === undefined) throw new Error(`there is no branch ${name}`)
      const spec = { ...branch.spec, deletionRequestedAt: new Date().toISOString() }
      await it.cluster().replace('Branch', { ...branch, spec })
    },
    untilDeleted: (name: string) =>
      eventually(
        () => get(name),
        found => found === undefined,
      ),
    /** All objects with an id, of any kind. */
    leftOf: async (id: string): Promise<string[]> => {
      const kinds = [
        ...(['StatefulSet', 'Pod', 'PersistentVolumeClaim', 'Service', 'NetworkPolicy'] as const),
        ...(['PodDisruptionBudget', 'ConfigMap', 'Secret', 'PersistentVolume'] as const),
      ]
      const lists = await Promise.all(
        kinds.map(async kind => (await it.cluster().list(kind, { labels: { [labels.database]: id } })).items),
      )
      const backup = await it.cluster().get('Backup', at(childNames.prebranch(id)))
      return [...lists.flat(), ...(backup ? [backup] : [])].map(({ metadata }) => metadata.name)
    },
    dataOf: async (name: string) => {
      const claim = await child('PersistentVolumeClaim', name, 'claim')
      const data = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
      if (data === undefined) throw new Error('there are no data')
      return data
    },
    snapshots: async () => (await it.cluster().list('VolumeSnapshot')).items,
    /** Runs `work` with an operator of this configuration. Afterwards starts a normal operator again. */
    under: async (options: Parameters<typeof it.startOperator>[0], work: () => Promise<void>) => {
      const restarted = async (configured?: typeof options) => {
        await it.stopOperator()
        await it.startOperator(configured)
      }
      await restarted(options)
      await work().finally(restarted)
    },
  }
}
