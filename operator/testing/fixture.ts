/** One installation with its operator for all tests of a file, and common helpers. */
import { afterAll, beforeAll } from 'vitest'
import type { KindName, Kinds } from '../../cluster/index.ts'
import {
  type Condition,
  childNames,
  labels,
  type ManagedDatabase,
  systemNamespace,
  type Task,
} from '../../crds/index.ts'
import { type Route, readRoute } from '../../routes/route.ts'
import type { Operator } from '../index.ts'
import type { ConditionType } from '../managed-database/conditions.ts'
import { conditionOf } from '../objects/conditions.ts'
import {
  databaseDraft,
  databaseWhen,
  eventually,
  type Installation,
  openInstallation,
  startTestOperator,
  testNamespace,
} from './installation.ts'

/** The name of a child, derived from its owner's id, and for some children also from its incarnation. */
export type NamedChild = Exclude<
  keyof typeof childNames,
  'serviceAddress' | 'serviceWorkload' | 'serviceSecret' | 'serviceState'
>

type OperatorOptions = Parameters<typeof startTestOperator>[1]

export function useInstallation(operatorOptions: OperatorOptions = {}) {
  let current: Installation | undefined
  let operator: Operator | undefined
  const installation = (): Installation => {
    if (current === undefined) throw new Error('the installation is not open yet')
    return current
  }
  const cluster = () => installation().cluster

  beforeAll(async () => {
    current = await openInstallation()
    operator = await startTestOperator(current, operatorOptions)
  })
  afterAll(async () => {
    await operator?.stop()
    await current?.close()
  })

  const database = (name: string) => cluster().get('ManagedDatabase', { namespace: testNamespace, name })
  const when = async (name: string, isExpected: (database: ManagedDatabase) => boolean): Promise<ManagedDatabase> => {
    const found = await databaseWhen(cluster(), name, value => value !== undefined && isExpected(value))
    if (found === undefined) throw new Error(`there is no database ${name}`)
    return found
  }
  const idOf = async (name: string): Promise<string> => (await database(name))?.metadata.labels?.[labels.id] ?? ''

  return {
    installation,
    cluster,
    workload: () => {
      const { workload } = installation()
      if (workload === undefined) throw new Error('there is no fake workload')
      return workload
    },
    gateway: () => {
      const { gateway } = installation()
      if (gateway === undefined) throw new Error('there is no fake gateway')
      return gateway
    },
    deployments: () => {
      const { deployments } = installation()
      if (deployments === undefined) throw new Error('there are no fake Deployments')
      return deployments
    },
    startOperator: async (options: OperatorOptions = operatorOptions) => {
      operator = await startTestOperator(installation(), options)
    },
    stopOperator: async () => {
      await operator?.stop()
      operator = undefined
    },
    database,
    when,
    idOf,
    create: async (name: string, spec: Partial<ManagedDatabase['spec']> = {}): Promise<ManagedDatabase> => {
      await cluster().create('ManagedDatabase', databaseDraft(name, spec))
      return when(name, isPhase(spec.suspended ? 'suspended' : 'available'))
    },
    untilDeleted: (name: string) =>
      eventually(
        () => database(name),
        found => found === undefined,
      ),
    /** The child of a database with this name. */
    child: async <K extends KindName>(kind: K, name: string, child: NamedChild): Promise<Kinds[K] | undefined> =>
      cluster().get(kind, { namespace: testNamespace, name: childNames[child](await idOf(name), 1) }),
    /** Deletes a claim despite all protection, as an administrator may. */
    deleteClaimByForce: async (key: { namespace: string; name: string }): Promise<void> => {
      await cluster().delete('PersistentVolumeClaim', key)
      const found = await cluster().get('PersistentVolumeClaim', key)
      if (found === undefined) return
      await cluster().replace('PersistentVolumeClaim', { ...found, metadata: { ...found.metadata, finalizers: [] } })
    },
    routesOf: async (id: string): Promise<Route[]> => {
      const { items } = await cluster().list('ConfigMap', {
        namespace: systemNamespace,
        labels: { [labels.database]: id },
      })
      return items.map(item => readRoute(item).route).filter(route => route !== undefined)
    },
    tasksOf: async (name: string): Promise<Task[]> => {
      const { items } = await cluster().list('Task', { namespace: testNamespace })
      return items.filter(task => task.spec.subject.name === name)
    },
  }
}

export const isPhase = (phase: string) => (database: ManagedDatabase) => database.status?.phase === phase

export const condition = (database: ManagedDatabase | undefined, type: ConditionType): Condition | undefined =>
  conditionOf(database?.status, type)

export const hasCondition = (type: ConditionType, reason: string) => (database: ManagedDatabase) =>
  condition(database, type)?.reason === reason
