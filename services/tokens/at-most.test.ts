/** Compares the upper bound of a text's tokens with real tokenizers. */
import fc from 'fast-check'
import { countTokens } from 'gpt-tokenizer'
import { countTokens as countOlder } from 'gpt-tokenizer/encoding/cl100k_base'
import { describe, expect, test } from 'vitest'
import { atMostTokens } from './at-most.ts'

const lower = 'abcdefghijklmnopqrstuvwxyz'
const alphabets: Record<string, string> = {
  lower,
  rare: 'qzxjvkw',
  upper: lower.toUpperCase(),
  mixed: lower + lower.toUpperCase(),
  base64: `${lower}${lower.toUpperCase()}0123456789+/`,
  hexadecimal: '0123456789abcdef',
  digits: '0123456789',
  numbers: '0123456789.,-eE ',
  punctuation: '!@#%^&*()_+{}|:<>?[]"\'`~;,./',
  escapes: '\\ntrb\t\n',
  han: '漢字文的是不了人我在有他这为之大来以个中上们龘靐齉爩鱻麤龗灪',
  kana: 'あいうえおかきくけこアイウエオカキクケコー',
  hangul: '가나다라마바사아자차카타파하뷁쀍',
  cyrillic: 'абвгдежзийклмнопрстуфхцчшщъыьэюя',
  arabic: 'ابتثجحخدذرزسشصضطظعغفقكلمنهوي',
  thai: 'กขคงจฉชซญดตถทธนบปผฝพฟมยรลวศษสหอฮ',
  emoji: '😀🎉👩🏽🏳🌈🜁𓀀𝔘',
  latin: 'äöüßéèêñçøåæœłşğı',
}

describe('the estimate of tokens', () => {
  test('is fast for any text', () => {
    const letters = fc.constantFrom('y', 'ya', 'ay', 'by', 'ab', 'a', 'b', 'yaby', 'ayb')
    fc.assert(
      fc.property(letters, fc.constantFrom('', 'x', 'q'), fc.integer({ min: 1, max: 50_000 }), (part, end, times) => {
        const from = performance.now()
        atMostTokens(part.repeat(times) + end)
        expect(performance.now() - from).toBeLessThan(1_000)
      }),
    )
  })

  test.each(Object.keys(alphabets))('is never too low for %s, with words of any length', name => {
    const characters = fc.constantFrom(...(alphabets[name] ?? ''))
    const word = (most: number) => fc.array(characters, { minLength: 1, maxLength: most }).map(list => list.join(''))
    for (const [most, separator] of [
      [3, ' '],
      [8, ' '],
      [8, '\t'],
      [60, '\n'],
      [400, ''],
    ] as const) {
      fc.assert(
        // The bound may be too low for a single word, but a result has many words.
        fc.property(fc.array(word(most), { minLength: 40, maxLength: 60 }), words => {
          const text = words.join(separator)
          expect(atMostTokens(text)).toBeGreaterThanOrEqual(countTokens(text))
        }),
        { numRuns: 8 },
      )
    }
  })

  test.each(['Ee', 'Qd77', 'ZyZZ', 'zzqzqqz', 'gkO', 'uuwwuuuw', 'oohhhoho'])(
    'is never too low for %s repeated, because a text may consist of one unusual piece',
    piece => {
      for (const separator of ['', ' ', '\n']) {
        const text = Array.from({ length: 12 }, () => piece).join(separator)
        expect(atMostTokens(text)).toBeGreaterThanOrEqual(countTokens(text))
      }
    },
  )

  test('is never too low for database content, also with an older tokenizer, and at most three times too high for prose', () => {
    const random = (length: number, characters: string) =>
      Array.from({ length }, () => characters[Math.floor(Math.random() * characters.length)]).join('')
    const rows: ((n: number) => string)[] = [
      () => crypto.randomUUID(),
      () => Buffer.from(random(30, lower)).toString('base64'),
      n => `${n}\tuser${n}@example.com\t2026-11-23 18:00:${n % 60}.123+00\t\\N\tt`,
      () => `{"id": ${Math.random()}, "tags": ["${random(5, lower)}", null], "n": ${Math.round(Math.random() * 1e9)}}`,
      () => `\\\\x${random(64, '0123456789abcdef')}`,
      () => `https://example.com/${random(8, lower)}?q=${random(12, `${lower}0123456789`)}%20`,
      () => `[${Array.from({ length: 20 }, () => (Math.random() - 0.5).toFixed(8)).join(',')}]`,
    ]
    for (const row of rows) {
      const text = Array.from({ length: 200 }, (_, n) => row(n)).join('\n')
      expect(atMostTokens(text)).toBeGreaterThanOrEqual(countTokens(text))
      expect(atMostTokens(text)).toBeGreaterThanOrEqual(countOlder(text) * 0.95)
    }
    const prose = 'The quick brown fox jumps over the lazy dog, and nobody in the village has ever asked why. '.repeat(
      20,
    )
    expect(atMostTokens(prose)).toBeLessThan(3 * countTokens(prose))
  })
})
