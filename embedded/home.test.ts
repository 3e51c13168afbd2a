import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { watchHome } from './home.ts'

function watched() {
  const root = mkdtempSync(join(tmpdir(), 'espalier-home-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const home = join(root, 'home')
  const store = join(home, 'store')
  mkdirSync(store, { recursive: true })
  const watch = watchHome(home, [store], 5)
  onTestFinished(() => watch.stop())
  return { home, store, watch }
}

test('an unchanged home has no problem', () => {
  expect(watched().watch.check()).toBeUndefined()
})

test('a home that is deleted, moved or replaced is reported', async () => {
  const ends: ((home: string) => void)[] = [
    home => rmSync(home, { recursive: true }),
    home => renameSync(home, `${home}.aside`),
    home => {
      renameSync(home, `${home}.aside`)
      mkdirSync(join(home, 'store'), { recursive: true })
    },
  ]
  for (const end of ends) {
    const { home, watch } = watched()
    end(home)
    expect(await watch.whenMissing).toContain(`${home} was deleted or moved while Espalier runs`)
    mkdirSync(join(home, 'store'), { recursive: true })
    expect(watch.check()).toBe(await watch.whenMissing)
  }
})

test('its subdirectories are checked as well', async () => {
  const { store, watch } = watched()
  rmSync(store, { recursive: true })
  expect(await watch.whenMissing).toContain(`${store} was deleted`)
})
