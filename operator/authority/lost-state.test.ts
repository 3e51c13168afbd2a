/**
 * The state of a replacement is deleted during the replacement. The authority that clients trust still signs, and the
 * replacement completes.
 */
import { describe, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import { systemNamespace } from '../../crds/index.ts'
import {
  authorityConfigMap,
  authoritySecret,
  authorityStateSecret,
  nextAuthoritySecret,
} from '../../sealing/credentials.ts'
import { authorityOf } from '../keys.ts'
import { createAuthority } from '../pki/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, silent } from '../testing/installation.ts'
import { progressAnnotation, readState } from './state.ts'

const hour = 3600_000
/** How far the operator's clock is ahead. */
let ahead = 0
const now = () => Date.now() + ahead
const steps = (settleMs: number) => ({
  now,
  configuration: { authority: { announceMs: 0, settleMs, lookMs: 5 }, certificates: {} },
})
const it = useInstallation(steps(0))

const secret = (name: string) => it.cluster().get('Secret', { namespace: systemNamespace, name })
const given = async () => authorityOf(await secret(authoritySecret))?.cert
const state = async () => readState(await secret(authorityStateSecret))
const published = async () => {
  const map = await it.cluster().get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
  return map?.data?.['ca.crt'] ?? ''
}
const trusted = async () => {
  const found = await it.child('Secret', 'one', 'tls')
  return Buffer.from(found?.data?.['ca.crt'] ?? '', 'base64').toString()
}
/** Causes another check by the operator. */
const touch = async (name: string) => {
  const found = await secret(name)
  if (found === undefined) return
  const annotations = { ...found.metadata.annotations, looked: String(performance.now()) }
  await it.cluster().replace('Secret', { ...found, metadata: { ...found.metadata, annotations } })
}
const restart = async (settleMs: number) => {
  await it.stopOperator()
  await it.startOperator(steps(settleMs))
}

describe('while the new authority is', () => {
  test.each([
    ['announced', { signs: 'old', bundle: ['old', 'new'] }],
    ['signing', { signs: 'new', bundle: ['new', 'old'] }],
    ['the only trusted authority', { signs: 'new', bundle: ['new'] }],
  ] as const)('%s', async (_, { signs, bundle }) => {
    if ((await it.database('one')) === undefined) await it.create('one')
    const [old = '', next] = [await given(), createAuthority()]
    const cert = { old, new: next.cert }
    const expected = bundle.map(name => cert[name]).join('')
    await restart(hour)
    await it.cluster().create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: systemNamespace, name: nextAuthoritySecret },
      data: {
        'tls.crt': Buffer.from(next.cert).toString('base64'),
        'tls.key': Buffer.from(next.key).toString('base64'),
      },
    })
    // Each step publishes another bundle. The clock advances once per bundle, so that no step is passed unnoticed.
    const passed = new Set([old])
    await eventually(
      async () => {
        const text = await published()
        if (text === expected || (await state())?.authorities.length !== 2) return text
        if (!passed.has(text)) ahead += hour + 1
        passed.add(text)
        await touch(nextAuthoritySecret)
        return text
      },
      text => text === expected,
    )
    await eventually(trusted, text => text === expected)
    await it.stopOperator()
    await it.cluster().delete('Secret', { namespace: systemNamespace, name: authorityStateSecret })
    const bundles = new Set<string>()
    const maps = createInformer(it.cluster(), 'ConfigMap', { namespace: systemNamespace, logger: silent })
    maps.onChange(({ object }) => {
      if (object.metadata.name === authorityConfigMap) bundles.add(object.data?.['ca.crt'] ?? '')
    })
    await maps.start()
    await it.startOperator(steps(hour))
    expect(await eventually(state, found => found !== undefined)).toMatchObject({
      authorities: [{ cert: cert[signs] }, {}],
    })
    const progress = async () => (await secret(authorityStateSecret))?.metadata.annotations?.[progressAnnotation]
    await eventually(progress, text => text?.includes('; until ') === true)
    expect(await trusted()).toBe(expected)
    await maps.stop()
    expect(bundles).toEqual(new Set([expected]))
    await restart(0)
    await eventually(
      async () => ({
        cert: await given(),
        members: (await state())?.authorities.length,
        next: await secret(nextAuthoritySecret),
      }),
      found => found.cert === cert.new && found.members === 1 && found.next === undefined,
    )
    await eventually(trusted, text => text === cert.new)
  })
})
