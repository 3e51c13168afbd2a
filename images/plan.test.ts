import { describe, expect, test } from 'vitest'
import { planImages, postgresSource } from './plan.ts'

describe('the source of Postgres', () => {
  test.each([
    ['17', false, { suite: 'trixie', pgdg: false }],
    ['17', true, { suite: 'trixie', pgdg: false }],
    ['18', true, { suite: 'trixie', pgdg: true }],
    ['18', false, { suite: 'sid', pgdg: false }],
    ['16', true, { suite: 'trixie', pgdg: true }],
    ['16', false, undefined],
  ] as const)('%s, with PGDG reachable: %s', (major, pgdg, source) => {
    expect(postgresSource(major, pgdg)).toEqual(source)
  })
})

describe('plan', () => {
  test('all images, and unavailable images', () => {
    const { images, missing } = planImages({ tag: 'dev', only: [], pgdg: false })
    expect(images.map(image => [image.id, image.name, image.suite])).toEqual([
      ['espalier', 'localhost/espalier:dev', 'trixie'],
      ['embedded', 'localhost/espalier-embedded:dev', 'trixie'],
      ['postgres-18', 'localhost/espalier-postgres:18', 'sid'],
      ['postgres-17', 'localhost/espalier-postgres:17', 'trixie'],
    ])
    expect(missing).toEqual(['16'])
  })

  test('only the requested images', () => {
    const { images, missing } = planImages({ tag: '1.2.3', only: ['postgres-16', 'espalier'], pgdg: true })
    expect(images.map(image => image.name)).toEqual(['localhost/espalier:1.2.3', 'localhost/espalier-postgres:16'])
    expect(images[1]?.arguments).toEqual({ PG_MAJOR: '16', PGDG: 'yes' })
    expect(missing).toEqual([])
  })
})
