import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { expandReferences, pathTranslator } from './expansion.ts'

describe('expandReferences', () => {
  const values = new Map([
    ['POD_IP', '127.9.0.1'],
    ['A', '$(POD_IP)'],
  ])
  test.each([
    ['$(POD_IP):5432', '127.9.0.1:5432'],
    ['$$(POD_IP)', '$(POD_IP)'],
    ['$$$(POD_IP)', '$127.9.0.1'],
    ['$(UNKNOWN) $POD_IP $', '$(UNKNOWN) $POD_IP $'],
    ['$(A)', '$(POD_IP)'],
    ['$(', '$('],
    ['a$$', 'a$'],
  ])('%s becomes %s', (text, expanded) => {
    expect(expandReferences(text, values)).toBe(expanded)
  })
  test('text without a dollar is unchanged', () => {
    fc.assert(
      fc.property(fc.string(), text => {
        const plain = text.replaceAll('$', '')
        expect(expandReferences(plain, values)).toBe(plain)
      }),
    )
  })
})

describe('pathTranslator', () => {
  const translate = pathTranslator([
    { mountPath: '/data', directory: '/home/volumes/1' },
    { mountPath: '/data/tls/', directory: '/home/secrets/tls' },
    { mountPath: '/etc/c+f', directory: '/home/conf' },
  ])
  test.each([
    ['/data', '/home/volumes/1'],
    ['/data/pgdata', '/home/volumes/1/pgdata'],
    ['/data/tls/ca.crt', '/home/secrets/tls/ca.crt'],
    ['--data=/data', '--data=/home/volumes/1'],
    ['cat /data/a "/data/b"', 'cat /home/volumes/1/a "/home/volumes/1/b"'],
    ['/bin:/data:/etc/c+f/x', '/bin:/home/volumes/1:/home/conf/x'],
    ['/database', '/database'],
    ['/other/data', '/other/data'],
    ['relative/data', 'relative/data'],
    ['/data-two', '/data-two'],
    ['/data.old', '/data.old'],
    ['/etc/ccf', '/etc/ccf'],
  ])('%s becomes %s', (text, translated) => {
    expect(translate(text)).toBe(translated)
  })
  test('without mounts nothing changes', () => {
    expect(pathTranslator([])('/data')).toBe('/data')
  })
})
