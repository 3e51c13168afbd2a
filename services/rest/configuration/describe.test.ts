import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keysOf } from '../../configuration/declaration.ts'
import { describeConfiguration, loadConfiguration } from './index.ts'
import { keys } from './keys.ts'

const readFile = () => {
  throw new Error('no file is read')
}
const load = (file: string, environment: Record<string, string | undefined> = {}) =>
  loadConfiguration({ file, environment, readFile })

describe('the printed configuration', () => {
  const word = fc.string({
    unit: fc.constantFrom('a', 'Z', '0', '_', '$', '(', ')', '"', '\\', '#', 'é', '@', '.'),
    minLength: 1,
    maxLength: 15,
  })
  const wordList = fc.uniqueArray(word, { maxLength: 4, minLength: 1 }).map(words => words.join(', '))
  const values: Record<string, fc.Arbitrary<string>> = {
    'db-anon-role': word,
    'db-schemas': wordList,
    'db-extra-search-path': fc.oneof(wordList, fc.constant('')),
    'db-root-spec': word,
    'db-max-rows': fc.nat().map(String),
    'db-uri': fc.constantFrom('postgresql://u@h/d', 'host=h user=u', "host='a b'"),
    'db-plan-enabled': fc.constantFrom('true', 'off'),
    'db-tx-end': fc.constantFrom('rollback', 'commit-allow-override'),
    'jwt-aud': word,
    'jwt-role-claim-key': word.map(key => `."${key.replaceAll('"', '')}"`),
    'server-unix-socket': word,
    'server-unix-socket-mode': fc.constantFrom('600', '777'),
    'server-cors-allowed-origins': fc.constantFrom('', '*', 'https://a, https://b'),
    'server-workers': fc.integer({ min: 1, max: 10 }).map(String),
  }

  test('can be loaded again', () => {
    fc.assert(
      fc.property(fc.record(values, { requiredKeys: [] }), configured => {
        const environment = Object.fromEntries(
          Object.entries(configured).map(([key, value]) => [
            `ESPALIER_REST_${key.toUpperCase().replaceAll('-', '_')}`,
            value,
          ]),
        )
        const configuration = load('', environment)
        expect(load(describeConfiguration(configuration))).toEqual(configuration)
      }),
    )
  })

  test('contains no secret, and is the same after it is loaded', () => {
    const configuration = load(`
      db-uri = "postgresql://u:Hidden@h/d?password=Hidden"
      jwt-secret = "${'Hidden'.repeat(8)}"
      jwt-secret-is-base64 = true
      openapi-server-proxy-uri = "https://u:Hidden@example.com/p"
      app.settings.api_key = "Hidden"`)
    const text = describeConfiguration(configuration)
    expect(text).not.toContain('Hidden')
    expect(text).toContain('jwt-secret = "********"\n')
    expect(text).toContain('app.settings.api_key = "********"\n')
    const again = text.replace('jwt-secret = "********"', `jwt-secret = "${'Again'.repeat(8)}"`)
    expect(describeConfiguration(load(again))).toBe(text)
    expect(describeConfiguration(load(''))).toContain('jwt-secret = ""\n')
  })

  test('contains every key once', () => {
    const lines = describeConfiguration(load('')).trimEnd().split('\n')
    expect(lines.map(line => line.split(' ')[0])).toEqual(keysOf(keys).map(({ name }) => name))
  })
})
