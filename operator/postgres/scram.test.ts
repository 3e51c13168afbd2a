import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fitsVerifier, scramVerifier } from './scram.ts'

const salt = Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64')
const plain = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 40,
})

describe('verifiers', () => {
  test('match the exchange in RFC 7677 section 3', async () => {
    const [, , stored = '', server = ''] = /^(.*)\$(.*):(.*)$/.exec(await scramVerifier('pencil', salt)) ?? []
    const message =
      'n=user,r=rOprNGfwEbeRWgbNEkqO,' +
      'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,' +
      'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0'
    const sign = (key: string) => createHmac('sha256', Buffer.from(key, 'base64')).update(message).digest()
    expect(sign(server).toString('base64')).toBe('6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=')
    const proof = Buffer.from('dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=', 'base64')
    const clientKey = sign(stored).map((byte, index) => byte ^ (proof[index] ?? 0))
    expect(createHash('sha256').update(clientKey).digest('base64')).toBe(stored)
  })

  test('are written as Postgres stores them', async () => {
    expect(await scramVerifier('pencil', salt)).toMatch(
      /^SCRAM-SHA-256\$4096:W22ZaJ0SNY7soEsUEjb6gQ==\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=$/,
    )
  })

  test('match only their password', async () => {
    await fc.assert(
      fc.asyncProperty(plain, plain, async (password, other) => {
        const verifier = await scramVerifier(password)
        expect(await fitsVerifier(password, verifier)).toBe(true)
        expect(await fitsVerifier(other, verifier)).toBe(other === password)
      }),
      { numRuns: 15 },
    )
  })

  test('differ if their salts differ', async () => {
    expect(await scramVerifier('same')).not.toBe(await scramVerifier('same'))
  })

  test.each([
    null,
    '',
    'md5d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0',
    'SCRAM-SHA-256$0:AAAA$AAAA:AAAA',
    'SCRAM-SHA-256$9999999:AAAA$AAAA:AAAA',
    'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA',
    'SCRAM-SHA-256$4096:AAAA$AAAA',
  ])('that are invalid match nothing: %s', async verifier => {
    expect(await fitsVerifier('pencil', verifier)).toBe(false)
  })

  test.each(['', 'schlüssel', 'tab\t', 'line\n'])(
    'are not computed for %j, which SASLprep might change',
    async password => {
      await expect(scramVerifier(password)).rejects.toThrow('printable ASCII')
      await expect(fitsVerifier(password, null)).rejects.toThrow('printable ASCII')
    },
  )
})
