/** Conformance: every kind that Espalier uses can be created, read back unchanged, listed and deleted. */
import { describe, expect, test } from 'vitest'
import type { Cluster, Draft, KindName } from '../../index.ts'
import { kindInfo } from '../../index.ts'
import { smallest } from './drafts.ts'
import { eventually, type Suite, uniqueName } from './suite.ts'

/** Creates, reads, lists, deletes. */
async function roundTrip<K extends KindName>(suite: Suite, kind: K, draft: Draft<K>): Promise<void> {
  const cluster: Cluster = suite.cluster()
  const { namespace, name } = draft.metadata
  const create = () => cluster.create(kind, draft)
  // For a moment, a new namespace has no service account, and accepts no Pod.
  const created = await (kind === 'Pod' ? eventually(create) : create())
  expect(created).toMatchObject(draft)
  const key = { namespace, name }
  expect(await cluster.get(kind, key)).toMatchObject(draft)
  const { items } = await cluster.list(kind, { namespace })
  expect(items.find(object => object.metadata.name === name)).toMatchObject(draft)
  await cluster.delete(kind, key)
  await eventually(async () => {
    const remaining = await cluster.get(kind, key)
    const isTerminating =
      suite.target().garbageCollection === false && remaining?.metadata.deletionTimestamp !== undefined
    if (remaining !== undefined && !isTerminating) throw new Error(`${kind} is still there`)
  })
}

export function describeKinds(suite: Suite): void {
  describe('every kind', () => {
    for (const kind of Object.keys(smallest) as (keyof typeof smallest)[])
      test(`${kind} is read back as it was sent, and can be deleted`, async () => {
        const namespace = kindInfo[kind].namespaced ? await suite.namespace() : ''
        const draft = smallest[kind](namespace, uniqueName('one'))
        if (!kindInfo[kind].namespaced) suite.removeAfterwards(kind, draft.metadata.name)
        await roundTrip(suite, kind, draft)
      })
  })
}
