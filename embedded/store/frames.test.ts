/** Frames of the store's files: written content is read back, and damage is never read as content. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeFrames, encodeFrame } from './frames.ts'

/** Bytes as in JSON: no byte is zero, and flipping one bit of a byte never makes it zero. */
const letters = fc.uint8Array({ min: 0x61, max: 0x7a, minLength: 2, maxLength: 700 })
const payloads = fc.array(letters, { minLength: 1, maxLength: 8 })
const fileOf = (contents: readonly Uint8Array[]): Buffer =>
  Buffer.concat(contents.map(each => encodeFrame(Buffer.from(each))))

describe('frames:', () => {
  test('the payloads that were written are read back', () => {
    fc.assert(
      fc.property(payloads, contents => {
        const file = fileOf(contents)
        const read = decodeFrames(file)
        expect(read.payloads.map(each => [...each])).toEqual(contents.map(each => [...each]))
        expect(read).toMatchObject({ end: file.length, rest: 'nothing' })
      }),
    )
  })

  test('a file that is truncated anywhere returns its complete frames', () => {
    fc.assert(
      fc.property(payloads, fc.nat(), (contents, where) => {
        const file = fileOf(contents)
        const length = where % file.length
        const read = decodeFrames(file.subarray(0, length))
        const complete = contents.slice(0, read.payloads.length)
        expect(fileOf(complete).length).toBe(read.end)
        expect(read.rest).toBe(read.end === length ? 'nothing' : 'truncated')
        expect(read.payloads.map(each => [...each])).toEqual(complete.map(each => [...each]))
      }),
    )
  })

  test('a flipped bit counts as damage, also in the last frame', () => {
    fc.assert(
      fc.property(payloads, fc.nat(), fc.integer({ min: 0, max: 7 }), (contents, where, bit) => {
        const file = fileOf(contents)
        const at = where % file.length
        file.writeUInt8(file.readUInt8(at) ^ (1 << bit), at)
        const last = file.length - encodeFrame(Buffer.from(contents.at(-1) ?? [])).length
        const read = decodeFrames(file)
        expect(read.rest).toBe(at < last ? 'damaged' : 'damaged at the end')
        expect(read.end).toBeLessThanOrEqual(at)
      }),
    )
  })

  test('zeros after the last frame, as after a power failure, are a truncated write', () => {
    const file = Buffer.concat([fileOf([Buffer.from('one')]), Buffer.alloc(100)])
    expect(decodeFrames(file)).toMatchObject({ end: file.length - 100, rest: 'truncated' })
  })

  test('a last frame with sectors that never reached the disk is a truncated write', () => {
    fc.assert(
      fc.property(payloads, letters, fc.nat(), (before, big, which) => {
        const head = fileOf(before)
        const frame = encodeFrame(Buffer.concat([Buffer.from(big), Buffer.alloc(1100, 'x')]))
        const file = Buffer.concat([head, frame])
        // Clears one sector of the last frame, or all sectors from that sector on.
        const first = Math.ceil(head.length / 512)
        const from = (first + (which % Math.max(1, Math.floor(file.length / 512) - first))) * 512
        file.fill(0, from, which % 2 === 0 ? file.length : from + 512)
        expect(decodeFrames(file)).toMatchObject({ end: head.length, rest: 'truncated' })
      }),
    )
  })

  test('a payload in the form of a frame is not read as a frame', () => {
    const inner = encodeFrame(Buffer.from('inner'))
    expect(decodeFrames(encodeFrame(inner)).payloads).toEqual([inner])
  })
})
