import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { findServiceAccount } from './service-account.ts'

let directory: string
let time = 0
const write = (name: string, text: string) => writeFileSync(join(directory, name), text)
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-account-'))
})
afterAll(() => rmSync(directory, { recursive: true }))
beforeEach(() => {
  write('token', 'first\n')
  write('ca.crt', 'authority\n')
})
const pod = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '6443' }
const find = (environment: NodeJS.ProcessEnv, at = directory) =>
  findServiceAccount({ environment, directory: at, now: () => time })

describe('the service account of a pod', () => {
  test.each([
    [pod, 'https://10.0.0.1:6443'],
    [{ KUBERNETES_SERVICE_HOST: '10.0.0.1' }, 'https://10.0.0.1:443'],
    [{ ...pod, KUBERNETES_SERVICE_HOST: 'fd00::1' }, 'https://[fd00::1]:6443'],
  ])('from %j gives the server %s', (environment, server) => {
    const account = find(environment)
    expect(account?.server).toBe(server)
    expect(account?.authenticate()).toEqual({ ca: 'authority', headers: { Authorization: 'Bearer first' } })
  })

  test('is undefined outside of a pod, and in a pod without a token', () => {
    expect(find({})).toBeUndefined()
    expect(find(pod, join(directory, 'nothing'))).toBeUndefined()
    write('token', '')
    expect(find(pod)).toBeUndefined()
  })

  test('uses a rotated token within a minute, and a new authority at once', () => {
    const account = find(pod)
    const shown = () => Object.values(account?.authenticate().headers ?? {})
    write('token', 'second')
    write('ca.crt', 'other')
    expect(account?.authenticate().ca).toBe('other')
    time += 59_000
    expect(shown()).toEqual(['Bearer first'])
    time += 1_000
    expect(shown()).toEqual(['Bearer second'])
  })

  test('fails while its token cannot be read, and continues with the next token', () => {
    const account = find(pod)
    rmSync(join(directory, 'token'))
    time += 60_000
    expect(() => account?.authenticate()).toThrow('ENOENT')
    write('token', 'third')
    expect(account?.authenticate().headers).toEqual({ Authorization: 'Bearer third' })
  })
})
