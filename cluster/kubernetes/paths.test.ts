import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isClusterError, kindNames } from '../index.ts'
import { collectionPath, fieldsText, objectPath, requiredCollection, selectorText } from './paths.ts'

describe('paths', () => {
  test('of core and named groups, with a namespace and without, of a subresource', () => {
    expect(collectionPath('Pod')).toBe('/api/v1/pods')
    expect(collectionPath('Pod', 'a')).toBe('/api/v1/namespaces/a/pods')
    expect(collectionPath('Size', 'ignored')).toBe('/apis/espalier.dev/v1alpha1/sizes')
    expect(objectPath('Namespace', { name: 'a' })).toBe('/api/v1/namespaces/a')
    expect(objectPath('ManagedDatabase', { namespace: 'a', name: 'b' }, 'status')).toBe(
      '/apis/espalier.dev/v1alpha1/namespaces/a/manageddatabases/b/status',
    )
    expect(objectPath('Pod', { namespace: 'a', name: 'b' }, 'log')).toBe('/api/v1/namespaces/a/pods/b/log')
  })

  test('a namespace is required if the kind has namespaces', () => {
    expect(() => objectPath('Secret', { name: 'a' })).toThrow(/metadata.namespace/)
    expect(() => requiredCollection('Secret', undefined)).toThrow(/metadata.namespace/)
  })

  test('only Events are selected by a uid', () => {
    expect(fieldsText('Event', { about: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f' })).toBe(
      'involvedObject.uid=5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f',
    )
    expect(fieldsText('Pod', {})).toBeUndefined()
    expect(fieldsText('Task', {})).toBeUndefined()
    expect(fieldsText('Task', { open: true })).toBe('status.phase!=succeeded,status.phase!=failed')
    for (const uid of ['a,type=Normal', 'a=b', '!a'])
      expect(() => fieldsText('Event', { about: uid })).toThrow(/is not a uid/)
    expect(() => fieldsText('Pod', { about: 'a' })).toThrow(/only for Events/)
    expect(() => fieldsText('Pod', { open: true })).toThrow(/only for Tasks/)
  })

  test('no name and no namespace can lead to another path', () => {
    const hostile = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '.', '..', '../secrets', '%2e%2e', 'a/b', 'a?b=c', 'a#b', 'a\\..\\b', ' ', 'a\nb'),
    )
    fc.assert(
      fc.property(fc.constantFrom(...kindNames), hostile, hostile, (kind, namespace, name) => {
        let path: string
        try {
          path = objectPath(kind, { namespace, name })
        } catch (error) {
          // encodeURIComponent cannot encode a lone surrogate.
          return isClusterError(error, 'BadRequest') || error instanceof URIError
        }
        const { pathname, search, hash } = new URL(path, 'https://server')
        expect(pathname).toBe(path)
        expect([search, hash]).toEqual(['', ''])
        expect(decodeURIComponent(pathname.split('/').at(-1) ?? '')).toBe(name)
        return true
      }),
    )
  })
})

describe('selectors', () => {
  test('are requirements joined by commas', () => {
    expect(selectorText({ 'espalier.dev/tenant': 'abc', tier: true, empty: '' })).toBe(
      'espalier.dev/tenant=abc,tier,empty=',
    )
    expect(selectorText({})).toBeUndefined()
    expect(selectorText(undefined)).toBeUndefined()
  })

  test('no value becomes an additional requirement', () => {
    fc.assert(
      fc.property(fc.string(), value => {
        try {
          const text = selectorText({ tenant: value })
          expect(text).toBe(`tenant=${value}`)
          return !/[,=!<> ()]/.test(value)
        } catch (error) {
          return isClusterError(error, 'BadRequest')
        }
      }),
    )
  })
})
