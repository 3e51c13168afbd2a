import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../cluster/index.ts'
import { createDeduplicator } from './deduplicator.ts'

const set = (name: string): StatefulSet => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name, namespace: 'n', uid: `uid of ${name}`, labels: { app: ['data', 'base'].join('') } },
  spec: {
    serviceName: name,
    selector: {},
    template: { spec: { containers: [{ name: 'postgres', image: 'postgres:18', args: ['-c', 'a=b'] }] } },
  },
})

describe('sharing', () => {
  test('stores equal parts once, and changes no object', () => {
    const { share } = createDeduplicator()
    const [one, two] = [share(set('one')), share(set('two'))]
    expect([one, two]).toEqual([set('one'), set('two')])
    expect(one.spec?.template.spec?.containers).toBe(two.spec?.template.spec?.containers)
    expect(one.spec).not.toBe(two.spec)
  })
  test('finds parts again that other objects had before', () => {
    const { share } = createDeduplicator()
    const other = set('other')
    const container = other.spec?.template.spec?.containers[0]
    if (container) container.image = 'postgres:17'
    const [one] = [share(set('one')), share(other)]
    const two = share(set('two'))
    expect(two.spec?.template.spec?.containers).toBe(one.spec?.template.spec?.containers)
    expect(other.spec?.template.spec?.containers).not.toBe(one.spec?.template.spec?.containers)
  })
  test('returns equal objects for any objects', () => {
    const value = fc.jsonValue({ maxDepth: 3 })
    const key = fc.constantFrom('containers', 'labels', 'ports', 'a', 'b', '__proto__')
    const spec = fc.array(fc.tuple(key, value)).map(entries => Object.fromEntries(entries))
    const property = fc.property(fc.array(spec, { minLength: 2 }), specs => {
      const { share } = createDeduplicator()
      const objects = specs.map((requested, index) => ({
        kind: 'StatefulSet',
        metadata: { name: `n${index}` },
        spec: requested,
      }))
      const shared = structuredClone(objects).map(object => share(object as never))
      expect(shared).toEqual(objects)
    })
    fc.assert(property)
  })
  test('does not confuse keys with inherited properties', () => {
    const { share } = createDeduplicator()
    const specs = [{ containers: false }, Object.fromEntries([['__proto__', {}]]), {}]
    const objects = specs.map((spec, index) => ({ kind: 'StatefulSet', metadata: { name: `n${index}` }, spec }))
    expect(structuredClone(objects).map(object => share(object as never))).toEqual(objects)
  })
  test('does not change frozen objects', () => {
    const { share } = createDeduplicator()
    share(set('one'))
    const frozen = set('two')
    const containers = frozen.spec?.template.spec?.containers
    const object = { ...frozen, spec: Object.freeze(frozen.spec) }
    expect(share(object).spec?.template.spec?.containers).toBe(containers)
  })
  test('continues beyond its limit of shared parts', () => {
    const { share } = createDeduplicator()
    for (let index = 0; index < 30_000; index++) {
      const object = set(`number ${index}`)
      const container = object.spec?.template.spec?.containers[0]
      if (container) container.image = `image ${index}`
      share(object)
    }
    expect(share(set('last'))).toEqual(set('last'))
  })
})
