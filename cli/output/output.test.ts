import fc from 'fast-check'
import { expect, test } from 'vitest'
import { escapeControls, printedJson } from '../../values/escape.ts'
import { progressLine } from '../progress.ts'
import { pairs, table } from './table.ts'
import { ageOf, bytesText } from './units.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the tests search for control characters
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/
const hostile = 'a\u001b[2Jb\u009b31m\u202ec\nd\re\u2028'

test('no control character or direction mark reaches a terminal', () => {
  expect(escapeControls(hostile)).toBe('a\\x1b[2Jb\\x9b31m\\u202ec\\nd\\re\\u2028')
  fc.assert(
    fc.property(
      fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map(code => String.fromCharCode(code)) }),
      text => {
        const json = printedJson({ text }, 2)
        const lines = json.replaceAll('\n', '')
        return !unsafe.test(escapeControls(text)) && !unsafe.test(lines) && JSON.parse(json).text === text
      },
    ),
  )
})

test('a table aligns its columns, escapes cells, and cuts long cells, except in the last column', () => {
  const items = [
    { name: 'shop', size: 12, note: 'x'.repeat(70) },
    { name: hostile, size: 7, note: '' },
    { name: 'y'.repeat(70), size: 100, note: 'end' },
  ]
  const text = table(items, [
    { title: 'NAME', value: ({ name }) => name },
    { title: 'SIZE', value: ({ size }) => size, align: 'right' },
    { title: 'NOTE', value: ({ note }) => note },
  ])
  expect(text.split('\n')).toEqual([
    `NAME${' '.repeat(56)}  SIZE  NOTE`,
    `shop${' '.repeat(56)}    12  ${'x'.repeat(70)}`,
    `${escapeControls(hostile).padEnd(60)}     7  -`,
    `${'y'.repeat(59)}…   100  end`,
  ])
})

test('pairs without a value are omitted', () => {
  expect(
    pairs([
      ['id', 'x'],
      ['gone', undefined],
      ['longer', 2],
    ]),
  ).toBe('id      x\nlonger  2')
})

test('formats bytes and ages', () => {
  expect([0, 1023, 1024, 1536 * 1024, 200 * 1024 ** 3].map(bytesText)).toEqual([
    ...['0 B', '1023 B', '1.0 KiB', '1.5 MiB', '200 GiB'],
  ])
  const now = Date.parse('2026-02-01T12:00:00Z')
  const ages = ['2026-02-01T11:59:58Z', '2026-02-01T11:58:00Z', '2026-01-31T10:00:00Z', 'never'].map(time =>
    ageOf(time, now),
  )
  expect(ages).toEqual(['2s ago', '2m ago', '1d ago', 'never'])
})

test('a progress line fits into the terminal', () => {
  expect(progressLine('shop is creating', 3, 80)).toBe('\r\u001b[Kshop is creating (3 s)')
  expect(progressLine('shop is creating: a long message', 12, 24)).toBe('\r\u001b[Kshop is creatin… (12 s)')
})
