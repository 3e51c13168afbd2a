/** An authority is replaced with many databases. Only few certificates are reissued at the same time. */
import { expect, test } from 'vitest'
import type { Secret } from '../../cluster/index.ts'
import { createInformer, keyOf } from '../../cluster/informer/index.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import { authoritySecret, authorityStateSecret, rotateAnnotation } from '../../sealing/credentials.ts'
import { fingerprintOf, isLoaded, trustAnnotation } from '../endpoint/certificate.ts'
import { useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, silent, testNamespace } from '../testing/installation.ts'
import { readState, trustOf } from './state.ts'

const atOnce = 3
const count = 24
const it = useInstallation({
  configuration: { authority: { announceMs: 0, settleMs: 0, lookMs: 5 }, certificatesAtOnce: atOnce },
})

const secret = (name: string) => it.cluster().get('Secret', { namespace: systemNamespace, name })
const state = async () => readState(await secret(authorityStateSecret))

/** Records every certificate when it is issued and loaded, in the order of the cluster's event log. */
async function watchCertificates() {
  const secrets = createInformer(it.cluster(), 'Secret', {
    namespace: testNamespace,
    labels: { [labels.database]: true },
    logger: silent,
  })
  const underWay = new Set<string>()
  /** By the authorities under which they were issued. */
  const issued = new Map<string, string[]>()
  let most = 0
  const follow = (object: Secret, previous: Secret | undefined) => {
    const digest = object.metadata.annotations?.[trustAnnotation]
    if (digest === undefined || previous === undefined) return
    if (fingerprintOf(previous) !== fingerprintOf(object)) {
      issued.set(digest, [...(issued.get(digest) ?? []), object.metadata.name])
      underWay.add(keyOf(object))
    }
    if (isLoaded(object)) underWay.delete(keyOf(object))
    most = Math.max(most, underWay.size)
  }
  secrets.onChange(({ object, previous }) => follow(object, previous))
  await secrets.start()
  return { most: () => most, issued, stop: () => secrets.stop() }
}

test('a rotation changes few databases at the same time, each once per step, and finally all', async () => {
  const names = Array.from({ length: count }, (_, index) => `db${String(index).padStart(2, '0')}`)
  for (const name of names) await it.cluster().create('ManagedDatabase', databaseDraft(name))
  for (const name of names)
    await it.when(name, found => found.status?.phase === 'available' && found.status.operation === undefined)
  const tlsOf = new Map<string, string>()
  for (const name of names) tlsOf.set((await it.child('Secret', name, 'tls'))?.metadata.name ?? '', name)
  const watched = await watchCertificates()
  const before = (await state())?.authorities[0]?.cert
  const given = await secret(authoritySecret)
  if (given === undefined) throw new Error('no authority')
  await it.cluster().replace('Secret', {
    ...given,
    metadata: { ...given.metadata, annotations: { [rotateAnnotation]: 'true' } },
  })
  const after = await eventually(state, now => now?.authorities.length === 1 && now.authorities[0]?.cert !== before, {
    withinMs: 30_000,
  })
  const { digest } = trustOf(after ?? { authorities: [], changedAt: '' }, [])
  await it.stopOperator()
  await watched.stop()
  expect(watched.most()).toBeLessThanOrEqual(atOnce)
  const steps = [...watched.issued.values()].map(secrets => secrets.map(name => tlsOf.get(name) ?? ''))
  // First both are trusted, then the new authority signs, then the old one is no longer trusted.
  expect(steps).toHaveLength(3)
  for (const step of steps) expect([...step].sort()).toEqual(names)
  expect([...watched.issued.keys()].at(-1)).toBe(digest)
})
