/** Volumes that grow, volumes that cannot grow, and volumes that other clients delete. */
import type { Cluster } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import { testNamespace } from '../installation.ts'
import { allTasksEnded, change, key, narrow, reconciledAs, toLarge, volumesOf } from './requests.ts'
import type { Scenario, Subject } from './scenario.ts'

/** Deletes the claim, or the volume, of a running database, like another client. */
async function deleteVolume(cluster: Cluster, { id }: Subject, what: ('claim' | 'volume')[]): Promise<void> {
  const claim = await cluster.get('PersistentVolumeClaim', { namespace: testNamespace, name: childNames.claim(id, 1) })
  const { name = '', namespace } = claim?.metadata ?? {}
  if (what.includes('volume')) await cluster.delete('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
  if (what.includes('claim')) await cluster.delete('PersistentVolumeClaim', { namespace, name })
}

/** The database is stopped on one volume, which is no longer retained. */
const isRescued = async (cluster: Cluster, subject: Subject): Promise<boolean> => {
  const [volume, ...others] = await volumesOf(cluster)
  const database = await cluster.get('ManagedDatabase', key(subject))
  const ready = database?.status?.conditions?.find(({ type }) => type === 'VolumeReady')
  const isBack = volume?.spec?.persistentVolumeReclaimPolicy === 'Delete' && others.length === 0
  return isBack && ready?.reason === 'Bound' && (await reconciledAs('available', 'large')(cluster, subject))
}

const toLargeWhile = (what: ('claim' | 'volume')[]): Scenario => ({
  name: `size, while another client deletes the ${what.join(' and the ')}`,
  before: { ipAllowlist: narrow },
  rules: ['198.51.100.0/24'],
  isEndangered: true,
  act: async (cluster, subject) => {
    await deleteVolume(cluster, subject, what)
    await change(cluster, subject, 'update-managed-size', toLarge)
  },
  isDone: isRescued,
})

export const volumeScenarios: Scenario[] = [
  toLargeWhile(['claim']),
  toLargeWhile(['volume']),
  {
    name: 'delete, while another client deletes the volume and the claim',
    takesAway: true,
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    isEndangered: true,
    act: async (cluster, subject) => {
      await deleteVolume(cluster, subject, ['volume', 'claim'])
      await cluster.delete('ManagedDatabase', key(subject))
    },
    isDone: async (cluster, subject) =>
      (await cluster.get('ManagedDatabase', key(subject))) === undefined &&
      (await volumesOf(cluster)).length === 0 &&
      (await allTasksEnded(cluster)),
  },
  {
    name: 'size',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: reconciledAs('available', 'large'),
  },
  {
    name: 'size, refused by a quota',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    volumes: { refusal: 'exceeded quota: storage' },
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: reconciledAs('available', 'small'),
  },
  {
    name: 'size, refused before and admitted now',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    earlier: {
      volumes: { refusal: 'exceeded quota: storage' },
      act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
      isDone: reconciledAs('available', 'small'),
    },
    act: async () => {},
    isDone: reconciledAs('available', 'large'),
  },
  {
    name: 'a volume that fills grows by itself, by two steps',
    before: { ipAllowlist: narrow, storage: { autogrow: { atPercent: 80, stepPercent: 25, maxSize: '2Gi' } } },
    rules: ['198.51.100.0/24'],
    volumeUse: 1.2 * 2 ** 30,
    act: async () => {},
    isDone: async (cluster, subject) => {
      const database = await cluster.get('ManagedDatabase', key(subject))
      const { phase, storage, conditions } = database?.status ?? {}
      const isReported = conditions?.some(({ type }) => type === 'VolumeGrown') === true
      return phase === 'available' && storage?.capacity === '1600Mi' && storage.growsTo === undefined && !isReported
    },
  },
  {
    name: 'size, that the storage driver cannot give',
    before: { ipAllowlist: narrow },
    rules: ['198.51.100.0/24'],
    mayFail: true,
    volumes: { growth: { mode: 'failing', message: 'the pool is full' } },
    act: (cluster, subject) => change(cluster, subject, 'update-managed-size', toLarge),
    isDone: reconciledAs('available', 'small'),
  },
  {
    name: 'resume with another size of what never ran, so that its claim is replaced',
    before: { ipAllowlist: narrow, suspended: true },
    rules: ['198.51.100.0/24'],
    act: (cluster, subject) =>
      change(cluster, subject, 'update-managed', spec => ({ ...toLarge(spec), suspended: false })),
    isDone: reconciledAs('available', 'large'),
  },
]
