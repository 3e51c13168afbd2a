/** The framing of the store's files: what was written comes back, and no damage passes for content. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeFrames, encodeFrame } from './frames.ts'

const payloads = fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 8 })
const fileOf = (contents: readonly Uint8Array[]): Buffer =>
  Buffer.concat(contents.map(each => encodeFrame(Buffer.from(each))))

describe('frames', () => {
  test('come back as they were written', () => {
    fc.assert(
      fc.property(payloads, contents => {
        const file = fileOf(contents)
        const read = decodeFrames(file)
        expect(read.payloads.map(each => [...each])).toEqual(contents.map(each => [...each]))
        expect(read).toMatchObject({ end: file.length, rest: 'nothing' })
      }),
    )
  })

  test('a file cut off anywhere gives the whole frames before the cut', () => {
    fc.assert(
      fc.property(payloads, fc.nat(), (contents, where) => {
        const file = fileOf(contents)
        const cut = where % file.length
        const read = decodeFrames(file.subarray(0, cut))
        const whole = contents.slice(0, read.payloads.length)
        expect(fileOf(whole).length).toBe(read.end)
        expect(read.rest).toBe(read.end === cut ? 'nothing' : 'torn')
        expect(read.payloads.map(each => [...each])).toEqual(whole.map(each => [...each]))
      }),
    )
  })

  test('a flipped bit is damage in all but the last frame, where it is a write that was cut off', () => {
    fc.assert(
      fc.property(payloads, fc.nat(), fc.integer({ min: 0, max: 7 }), (contents, where, bit) => {
        const file = fileOf(contents)
        const at = where % file.length
        file.writeUInt8(file.readUInt8(at) ^ (1 << bit), at)
        const last = file.length - encodeFrame(Buffer.from(contents.at(-1) ?? [])).length
        const read = decodeFrames(file)
        expect(read.rest).toBe(at < last ? 'damaged' : 'torn')
        expect(read.end).toBeLessThanOrEqual(at)
      }),
    )
  })

  test('zeros behind the last frame, as a power cut leaves them, are a write that was cut off', () => {
    const file = Buffer.concat([fileOf([Buffer.from('one')]), Buffer.alloc(100)])
    expect(decodeFrames(file)).toMatchObject({ end: file.length - 100, rest: 'torn' })
  })

  test('a payload that looks like a frame is no frame of its own', () => {
    const inner = encodeFrame(Buffer.from('inner'))
    expect(decodeFrames(encodeFrame(inner)).payloads).toEqual([inner])
  })
})
