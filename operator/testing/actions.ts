/**
 * Executes single actions for a new database, in a store without fakes. The cluster may differ from the observed state.
 */
import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { Draft } from '../../cluster/index.ts'
import { childNames, firstMember, type ManagedDatabase } from '../../crds/index.ts'
import { createDriftHistory } from '../children/drift-history.ts'
import type { Observed } from '../managed-database/observed.ts'
import { memberKeyOf } from '../member/member.ts'
import { createGrowthRefusals } from '../member/storage/growth-refusals.ts'
import { childMetadata, type Owner, ownerOf } from '../objects/ownership.ts'
import { type Done, type Executor, type Pass, perform } from '../workload/act.ts'
import type { Action } from '../workload/actions.ts'
import { emptyClusterState, observedIn } from './cluster-state.ts'
import { databaseDraft, type Installation, openInstallation, testNamespace } from './installation.ts'

type Options = {
  observed?: Partial<Observed>
  children?: Partial<Observed['children']>
  executor?: Partial<Executor>
  pass?: Partial<Pass>
}

/** Creates two databases before each test. `count` is the test's number; names with it are used only once. */
export function useActions() {
  let installation: Installation | undefined
  let databases: { database: ManagedDatabase; owner: Owner; other: Owner } | undefined
  let count = 0
  const open = (): Installation => {
    if (installation === undefined) throw new Error('the installation is not open yet')
    return installation
  }
  const made = () => {
    if (databases === undefined) throw new Error('the databases are not created yet')
    return databases
  }

  beforeAll(async () => {
    installation = await openInstallation({ fakes: false })
  })
  afterAll(() => installation?.close())
  beforeEach(async () => {
    count += 1
    const idOf = (kind: number) => `${String(count).padStart(8, '0')}-0000-4000-8000-00000000000${kind}`
    const create = (name: string, id: string) =>
      open().cluster.create('ManagedDatabase', databaseDraft(`${name}${count}`, {}, id))
    const database = await create('one', idOf(1))
    const second = await create('two', idOf(2))
    databases = { database, owner: ownerOf(database, idOf(1)), other: ownerOf(second, idOf(2)) }
  })

  return {
    get cluster() {
      return open().cluster
    },
    get count() {
      return count
    },
    get database() {
      return made().database
    },
    get owner() {
      return made().owner
    },
    get other() {
      return made().other
    },
    passOf: (options?: Options) => passOf(open(), made(), options),
  }
}

/** A pass for the database. `outdated`: the probes that its actions marked as outdated. */
function passOf(
  { cluster }: Installation,
  { database, owner }: { database: ManagedDatabase; owner: Owner },
  { observed = {}, children = {}, executor = {}, pass = {} }: Options = {},
) {
  const empty = observedIn(emptyClusterState())
  const outdated: [name: string, failed: boolean][] = []
  const fullExecutor: Executor = {
    cluster,
    ports: { claim: async () => {}, leave: async () => {} },
    growthRefusals: createGrowthRefusals(() => 0),
    drifts: createDriftHistory(() => 0),
    now: Date.now,
    keys: () => ({ sealingKey: undefined, authority: undefined }),
    outdateProbe: (name, failed) => outdated.push([name, failed]),
    ...executor,
  }
  const facts = { ...empty, instance: database, owner, ...observed, children: { ...empty.children, ...children } }
  const given: Pass = {
    key: `${testNamespace}/${database.metadata.name}`,
    memberKey: memberKeyOf(`${testNamespace}/${database.metadata.name}`, firstMember),
    keys: { sealingKey: undefined, authority: undefined },
    observed: facts,
    passwords: undefined,
    serviceFiles: {},
    authenticator: undefined,
    mcpState: undefined,
    access: undefined,
    target: undefined,
    signal: new AbortController().signal,
    ...pass,
  }
  return { outdated, do: (action: Action): Promise<Done> => perform(fullExecutor, given, action) }
}

export const key = (name: string) => ({ namespace: testNamespace, name })

/** A claim that is bound to the volume from `volumeDraft()` with the same number. */
export const claimDraft = (
  of: Owner,
  count: number,
  name = childNames.claim(of.id, 1),
): Draft<'PersistentVolumeClaim'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: childMetadata(of, name, 'postgres'),
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, volumeName: `pv-${count}` },
})

export const mapDraft = (of: Owner, name: string, data: Record<string, string> = {}): Draft<'ConfigMap'> => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: childMetadata(of, name, 'postgres'),
  data,
})

export const volumeDraft = (count: number, policy = 'Delete'): Draft<'PersistentVolume'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: `pv-${count}` },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    persistentVolumeReclaimPolicy: policy,
    hostPath: { path: '/nowhere' },
  },
})
