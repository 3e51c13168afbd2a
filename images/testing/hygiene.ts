/** Checks of every image: no file may help an attacker or reveal the build machine. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Opened } from './images.ts'

/** The output lines of `find` in the image's files. */
const find = (root: string, ...expression: string[]): string[] =>
  execFileSync('find', [root, '-xdev', ...expression], { encoding: 'utf8', maxBuffer: 2 ** 26 })
    .split('\n')
    .filter(line => line !== '')
    .map(line => line.slice(root.length))

/** `own`: directories that the image's user may change, such as the mount point of a volume. */
export function describeHygiene(opened: () => Opened, own: readonly string[] = []): void {
  test('runs as uid 10001, which has a passwd entry and no way to log in', () => {
    const { image, root } = opened()
    expect(image.user).toBe('10001:10001')
    const passwd = readFileSync(join(root, 'etc/passwd'), 'utf8')
    expect(passwd).toContain('espalier:x:10001:10001:Espalier:/nonexistent:/usr/sbin/nologin\n')
    const shadow = readFileSync(join(root, 'etc/shadow'), 'utf8')
    expect(shadow.split('\n').filter(line => !/^[^:]*:[*!]/.test(line) && line !== '')).toEqual([])
  })

  test('contains no program that changes the user, and no file that its user could change', () => {
    const { root } = opened()
    expect(find(root, '-type', 'f', '-perm', '/6000')).toEqual([])
    expect(find(root, '(', '-uid', '10001', '-o', '-gid', '10001', ')')).toEqual(own)
    const open = find(root, '-perm', '-o+w', '!', '-type', 'l', '!', '-perm', '-1000')
    expect(open.filter(path => !path.startsWith('/dev'))).toEqual([])
  })

  test('contains no private key', () => {
    const { root } = opened()
    const directories = ['etc', 'home', 'opt/espalier', 'root', 'run', 'usr/local/share', 'var'].map(directory =>
      join(root, directory),
    )
    const grep = ['--recursive', '--files-with-matches', '--text', '--exclude-dir=node_modules']
    const begin = '^-----BEGIN ([A-Z]+ )?PRIVATE KEY-----'
    let found = ''
    try {
      found = execFileSync('grep', [...grep, '--extended-regexp', begin, ...directories], { encoding: 'utf8' })
    } catch (error) {
      // Exits with 1 without a match.
      if (!(error instanceof Error && 'status' in error && error.status === 1)) throw error
    }
    expect(found).toBe('')
  })

  test('uses the public package addresses, and contains no address of the build machine', () => {
    const { root } = opened()
    const apt = join(root, 'etc/apt')
    expect(readdirSync(join(apt, 'sources.list.d'))).toContain('debian.sources')
    const names = readdirSync(apt, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
    const text = names.map(entry => readFileSync(join(entry.parentPath, entry.name), 'utf8')).join('\n')
    const hosts = [...text.matchAll(/\b[a-z]+:\/\/([^/\s"]+)/g)].map(match => match[1])
    expect(new Set(hosts).difference(new Set(['deb.debian.org', 'apt.postgresql.org']))).toEqual(new Set())
    expect(text).not.toMatch(/Acquire::(http|https|Check)/)
    for (const name of ['etc/hostname', 'etc/hosts', 'etc/resolv.conf']) {
      expect(readFileSync(join(root, name), 'utf8')).toBe('')
    }
    expect(find(join(root, 'run'), '-type', 'f', '-size', '+0')).toEqual([])
  })
}
