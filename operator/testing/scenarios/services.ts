/** Operations on databases with services. */
import type { Cluster, Deployment } from '../../../cluster/index.ts'
import {
  annotations,
  desiredHash,
  renderOperation,
  rotationAnnotations,
  type ServiceConfig,
} from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { serviceTypes } from '../../service/names.ts'
import { editSpec, testConfiguration, testNamespace } from '../installation.ts'
import { branchEndedAs, branchKey, requestBranch } from './branch-requests.ts'
import { allTasksEnded, change, createDatabase, createTask, reconciledAs } from './requests.ts'
import type { Scenario } from './scenario.ts'

const open = { rules: [{ cidr: '198.51.100.0/24' }] }
const mcp: ServiceConfig = { serviceType: 'mcp', serviceId: '00000001', ipAllowlist: open, mcp: { allowWrites: false } }
const rest: ServiceConfig = {
  ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist: open },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
}
const changed: ServiceConfig[] = [
  { ...mcp, mcp: { allowWrites: true } },
  { ...rest, rest: { ...rest.rest, dbSchemas: 'api', dbAnonRole: 'anonymous', dbPool: 5, maxRows: 10 } },
]

/** Replaced workloads are deleted at once. */
const configuration = {
  images: { ...testConfiguration.images, services: 'espalier' },
  services: { ...testConfiguration.services, settleMs: 0 },
}
const common = { rules: ['198.51.100.0/24'], configuration }

const deploymentsOf = async (cluster: Cluster): Promise<Deployment[]> => (await cluster.list('Deployment')).items

/** Whether there are this many workloads, all of them ready, and a Secret for each. */
async function areReconciled(cluster: Cluster, count: number): Promise<boolean> {
  const found = await deploymentsOf(cluster)
  const { items: secrets } = await cluster.list('Secret', { namespace: testNamespace })
  const mounted = secrets.filter(({ metadata }) => serviceTypes.some(type => metadata.name.includes(`-${type}-`)))
  const areReady = found.every(({ status }) => status?.readyReplicas === 1)
  return found.length === count && areReady && mounted.length === count
}

const isDeleted: Scenario['isDone'] = async (cluster, subject) =>
  (await cluster.get('ManagedDatabase', { namespace: testNamespace, name: subject.name })) === undefined &&
  (await allTasksEnded(cluster))

export const serviceScenarios: Scenario[] = [
  {
    ...common,
    name: 'create with services',
    before: undefined,
    act: async (cluster, subject) => {
      await createDatabase(cluster, subject, { ipAllowlist: open, services: [mcp, rest] })
      await createTask(cluster, subject, 'create-managed')
    },
    isDone: async (cluster, subject) =>
      (await areReconciled(cluster, 2)) && reconciledAs('available')(cluster, subject),
  },
  {
    ...common,
    name: 'patch of services',
    before: { ipAllowlist: open, services: [mcp, rest] },
    act: async (cluster, subject) => {
      await change(cluster, subject, 'update-managed', spec => ({ ...spec, services: changed }))
      await createTask(cluster, subject, 'update-managed')
    },
    isDone: async (cluster, subject) =>
      (await areReconciled(cluster, 2)) && reconciledAs('available')(cluster, subject),
  },
  {
    ...common,
    name: 'patch that removes a service and adds another',
    before: { ipAllowlist: open, services: [mcp] },
    act: async (cluster, subject) => {
      await change(cluster, subject, 'update-managed', spec => ({ ...spec, services: [rest] }))
      await createTask(cluster, subject, 'update-managed')
    },
    isDone: async (cluster, subject) =>
      (await areReconciled(cluster, 1)) && reconciledAs('available')(cluster, subject),
  },
  {
    ...common,
    name: 'rotation with services',
    before: { ipAllowlist: open, services: [mcp, rest] },
    rotates: 'app_read_only',
    act: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', { namespace: testNamespace, name: subject.name })
      if (database === undefined) throw new Error('there is no database')
      const name = 'rotate-password-managed'
      const hash = desiredHash({ ...database.spec, rotations: { app_read_only: 'now' } })
      await editSpec(cluster, subject.name, spec => spec, {
        [rotationAnnotations.app_read_only]: 'now',
        [annotations.operation]: renderOperation({ taskId: subject.taskId, name, hash }),
      })
      await createTask(cluster, subject, name)
    },
    isDone: async (cluster, subject) =>
      (await areReconciled(cluster, 2)) && reconciledAs('available')(cluster, subject),
  },
  {
    ...common,
    name: 'suspend with services',
    before: { ipAllowlist: open, services: [mcp, rest] },
    act: async (cluster, subject) => {
      await change(cluster, subject, 'suspend-managed', spec => ({ ...spec, suspended: true }))
      await createTask(cluster, subject, 'suspend-managed')
    },
    isDone: async (cluster, subject) =>
      (await areReconciled(cluster, 0)) && reconciledAs('suspended')(cluster, subject),
  },
  {
    ...common,
    name: 'delete with services',
    takesAway: true,
    before: { ipAllowlist: open, services: [mcp, rest] },
    act: async (cluster, subject) => {
      await cluster.delete('ManagedDatabase', { namespace: testNamespace, name: subject.name })
    },
    isDone: async (cluster, subject) => (await areReconciled(cluster, 0)) && isDeleted(cluster, subject),
  },
  {
    ...common,
    name: 'branch with services',
    copies: 1,
    hasSnapshots: true,
    before: { ipAllowlist: open, services: [mcp] },
    act: (cluster, subject) => requestBranch(cluster, subject, [{ ...mcp, serviceId: '00000003' }]),
    isDone: async (cluster, subject) => {
      const { status } = (await cluster.get('Branch', branchKey(subject))) ?? {}
      const run = conditionOf(status, 'ServicesReady')?.status === 'True'
      return run && (await areReconciled(cluster, 2)) && branchEndedAs('available')(cluster, subject)
    },
  },
]
