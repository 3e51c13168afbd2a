import { describe, expect, test } from 'vitest'
import { ephemeralPortsWarning } from './ports.ts'

const kernel = (text: string) => () => Promise.resolve(text)

describe('a port range relative to the ports of outgoing connections', () => {
  test.each([
    ['below', { first: 15432, last: 16431 }],
    ['above', { first: 61000, last: 62000 }],
  ])('%s them causes no warning', async (_name, ports) => {
    expect(await ephemeralPortsWarning(ports, kernel('32768\t60999\n'))).toBeUndefined()
  })

  test.each([
    ['overlaps their beginning', { first: 32000, last: 32768 }],
    ['overlaps their end', { first: 60999, last: 62000 }],
    ['lies within them', { first: 40000, last: 40010 }],
    ['contains all of them', { first: 20000, last: 65000 }],
  ])('%s causes a warning with the variable and a suggested range', async (_name, ports) => {
    const warning = await ephemeralPortsWarning(ports, kernel('32768\t60999\n'))
    expect(warning).toContain(`ports ${ports.first}-${ports.last} of ESPALIER_PORTS overlap 32768-60999`)
    expect(warning).toContain('below 32768')
  })

  test('causes no warning if the kernel reports no range', async () => {
    expect(
      await ephemeralPortsWarning({ first: 1, last: 2 }, () => Promise.reject(new Error('ENOENT'))),
    ).toBeUndefined()
  })
})
