/** Quota behaviour beyond the conformance suite: counting during changes, and reductions that are always allowed. */
import { expect, test } from 'vitest'
import type { Cluster, PersistentVolumeClaim } from '../../cluster/index.ts'
import { smallest } from '../../cluster/testing/conformance/drafts.ts'
import { refusal, refusedOf } from '../../cluster/testing/conformance/suite.ts'
import { temporaryDirectory, testStore } from './testing/store.ts'

const namespace = 'default'
const storage = 'requests.storage'

const putQuota = (cluster: Cluster, hard: Record<string, string>, more: object = {}) =>
  cluster.apply('ResourceQuota', {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { namespace, name: 'room' },
    spec: { hard, ...more },
  })
const bound = async (cluster: Cluster, name: string, capacity = '1Gi'): Promise<PersistentVolumeClaim> => {
  const draft = smallest.PersistentVolumeClaim(namespace, name)
  const spec = { ...draft.spec, storageClassName: 'local', resources: { requests: { storage: capacity } } }
  const claim = await cluster.create('PersistentVolumeClaim', { ...draft, spec })
  const status = { phase: 'Bound', capacity: { storage: capacity } }
  return cluster.replaceStatus('PersistentVolumeClaim', { ...claim, status })
}
const withStorage = (claim: PersistentVolumeClaim, amount: string) => ({
  ...claim,
  spec: { ...claim.spec, resources: { requests: { storage: amount } } },
})

test('two claims that grow at once cannot both use the same free quota', async () => {
  const { cluster } = await testStore({ directory: temporaryDirectory() })
  await putQuota(cluster, { [storage]: '3Gi' })
  const claims = [await bound(cluster, 'one'), await bound(cluster, 'two')]
  const grow = claims.map(claim => cluster.replace('PersistentVolumeClaim', withStorage(claim, '2Gi')))
  expect(await refusedOf(grow, 'Forbidden')).toBe(1)
  await refusal(bound(cluster, 'three'), 'Forbidden')
  // The refused writes use no quota: 1 GiB more is enough for a third claim.
  await putQuota(cluster, { [storage]: '4Gi' })
  await bound(cluster, 'three')
})

test('a claim grows by apply within its quota; the refusal names requested, used and limit', async () => {
  const { cluster } = await testStore()
  await putQuota(cluster, { [storage]: '2Gi' })
  const claim = await bound(cluster, 'one')
  const { metadata, apiVersion, kind } = smallest.PersistentVolumeClaim(namespace, 'one')
  const apply = (amount: string) =>
    cluster.apply('PersistentVolumeClaim', { apiVersion, kind, metadata, spec: withStorage(claim, amount).spec ?? {} })
  const { message } = await refusal(apply('3Gi'), 'Forbidden')
  expect(message).toContain(`requested: ${storage}=2Gi, used: ${storage}=1Gi, limited: ${storage}=2Gi`)
  expect((await apply('2Gi')).spec?.resources?.requests?.storage).toBe('2Gi')
})

test('a claim above a quota that was added later may request less storage, and its labels may change', async () => {
  const { cluster } = await testStore()
  const grown = await cluster.replace('PersistentVolumeClaim', withStorage(await bound(cluster, 'one'), '4Gi'))
  await putQuota(cluster, { [storage]: '1Gi', persistentvolumeclaims: '0' })
  const lowered = await cluster.replace('PersistentVolumeClaim', withStorage(grown, '2Gi'))
  const labelled = { ...lowered, metadata: { ...lowered.metadata, labels: { any: 'thing' } } }
  const after = await cluster.replace('PersistentVolumeClaim', labelled)
  await refusal(cluster.replace('PersistentVolumeClaim', withStorage(after, '3Gi')), 'Forbidden')
})

test('a reduced request still counts while the driver may grant it', async () => {
  const { cluster } = await testStore()
  await putQuota(cluster, { [storage]: '3Gi' })
  const requested = await cluster.replace('PersistentVolumeClaim', withStorage(await bound(cluster, 'one'), '3Gi'))
  const allocated = { ...requested.status, allocatedResources: { storage: '3Gi' } }
  const growing = await cluster.replaceStatus('PersistentVolumeClaim', { ...requested, status: allocated })
  const lowered = await cluster.replace('PersistentVolumeClaim', withStorage(growing, '2Gi'))
  await refusal(bound(cluster, 'two'), 'Forbidden')
  const boundStatus = { phase: 'Bound', capacity: { storage: '2Gi' } }
  await cluster.replaceStatus('PersistentVolumeClaim', { ...lowered, status: boundStatus })
  await bound(cluster, 'two')
})

test('a finished pod is not counted, and a quota with scopes has no effect', async () => {
  const { cluster } = await testStore()
  await putQuota(cluster, { pods: '1' })
  const pod = await cluster.create('Pod', smallest.Pod(namespace, 'one'))
  await refusal(cluster.create('Pod', smallest.Pod(namespace, 'two')), 'Forbidden')
  await cluster.replaceStatus('Pod', { ...pod, status: { phase: 'Succeeded' } })
  await cluster.create('Pod', smallest.Pod(namespace, 'two'))
  await putQuota(cluster, { pods: '0' }, { scopes: ['BestEffort'] })
  await cluster.create('Pod', smallest.Pod(namespace, 'three'))
})
