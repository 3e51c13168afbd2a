/**
 * The runtime is stopped after each of its writes and started again. Meanwhile a claim is bound and deleted; its volume
 * stays, is bound to a new claim, grows, and is deleted. The data survive until the deletion, and nothing remains after
 * it.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { PersistentVolume } from '../../../cluster/index.ts'
import { startCrashingRuntime } from '../testing/crashing.ts'
import { claim, namespace, openTestStore, temporaryDirectory, until } from '../testing/runtime.ts'

const key = { namespace, name: 'data' }

/**
 * One life cycle of a volume, with a runtime that crashes after a number of writes. @returns the writes before the
 * crash
 */
async function runLifeCycle(after: number): Promise<string[]> {
  const { store, cluster } = await openTestStore()
  const directory = temporaryDirectory()
  const { eventually, effects } = await startCrashingRuntime(store, directory, after)
  const inPhase = async (phase: string): Promise<boolean> =>
    (await cluster.get('PersistentVolumeClaim', key))?.status?.phase === phase
  const volumeOf = async (): Promise<PersistentVolume | undefined> => (await cluster.list('PersistentVolume')).items[0]
  const change = async (alter: (spec: NonNullable<PersistentVolume['spec']>) => PersistentVolume['spec']) => {
    const attempt = async (): Promise<boolean> => {
      const volume = await volumeOf()
      if (volume === undefined) throw new Error('the volume is gone')
      const spec = alter(volume.spec ?? {})
      return cluster.replace('PersistentVolume', { ...volume, ...(spec && { spec }) }).then(
        () => true,
        () => false,
      )
    }
    await until(attempt)
  }
  const path = async () => join(directory, 'volumes', (await volumeOf())?.spec?.csi?.volumeHandle ?? 'none')

  await cluster.create('PersistentVolumeClaim', claim('data', { storageClassName: 'local' }))
  await eventually('the claim is bound', () => inPhase('Bound'))
  const first = await path()
  const file = join(first, 'file')
  writeFileSync(file, 'precious')

  await change(spec => ({ ...spec, persistentVolumeReclaimPolicy: 'Retain' }))
  await cluster.delete('PersistentVolumeClaim', key)
  await eventually('the volume is released', async () => (await volumeOf())?.status?.phase === 'Released')
  await change(spec => ({ ...spec, claimRef: { kind: 'PersistentVolumeClaim', ...key } }))
  const volumeName = (await volumeOf())?.metadata.name ?? ''
  await cluster.create('PersistentVolumeClaim', claim('data', { storageClassName: 'local', volumeName }))
  await eventually('the claim is bound again', () => inPhase('Bound'))
  expect(await path()).toBe(first)
  expect(readFileSync(file, 'utf8')).toBe('precious')

  const resources = { requests: { storage: '2Gi' } }
  await cluster.apply('PersistentVolumeClaim', claim('data', { storageClassName: 'local', volumeName, resources }))
  await eventually('the claim has a capacity of 2Gi', async () => {
    const { status } = (await cluster.get('PersistentVolumeClaim', key)) ?? {}
    return status?.capacity?.storage === '2Gi' && status.conditions === undefined
  })
  expect(readFileSync(file, 'utf8')).toBe('precious')
  expect((await cluster.list('PersistentVolume')).items).toHaveLength(1)

  await change(spec => ({ ...spec, persistentVolumeReclaimPolicy: 'Delete' }))
  await cluster.delete('PersistentVolumeClaim', key)
  await eventually('the volume is deleted', async () => (await volumeOf()) === undefined)
  expect(existsSync(first)).toBe(false)
  expect(readdirSync(join(directory, 'volumes', namespace))).toEqual([])
  expect(readdirSync(join(directory, 'staging'))).toEqual([])
  return effects
}

test('a crash after any write loses nothing and leaves nothing behind', { timeout: 300_000 }, async () => {
  const effects = await runLifeCycle(Number.POSITIVE_INFINITY)
  expect(effects.length).toBeGreaterThan(10)
  for (let after = 1; after <= effects.length; after++) await runLifeCycle(after)
})
