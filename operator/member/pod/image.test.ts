import { describe, expect, test } from 'vitest'
import { pinnedReference } from './image.ts'

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`

describe('an image by digest', () => {
  test.each<[string, string, string, string | undefined]>([
    ['reported by containerd', 'r.example/pg:18', `r.example/pg@${digest}`, `r.example/pg@${digest}`],
    ['without a tag', 'r.example/pg', `r.example/pg@${digest}`, `r.example/pg@${digest}`],
    [
      'of a registry with a port',
      'r.example:5000/a/pg:18',
      `r.example:5000/a/pg@${digest}`,
      `r.example:5000/a/pg@${digest}`,
    ],
    [
      'reported by older Docker',
      'r.example/pg:18',
      `docker-pullable://r.example/pg@${digest}`,
      `r.example/pg@${digest}`,
    ],
    ['of the hub, by its short name', 'postgres:18', `docker.io/library/postgres@${digest}`, `postgres@${digest}`],
    ['of a user of the hub', 'me/pg:18', `docker.io/me/pg@${digest}`, `me/pg@${digest}`],
    [
      'of the hub by its older name',
      'index.docker.io/me/pg:1',
      `docker.io/me/pg@${digest}`,
      `index.docker.io/me/pg@${digest}`,
    ],
    ['of localhost', 'localhost/pg:18', `localhost/pg@${digest}`, `localhost/pg@${digest}`],
    ['pinned by the installation itself', `r.example/pg@${digest}`, `r.example/pg@${digest}`, undefined],
    ['pinned beside a tag', `r.example/pg:18@${digest}`, `r.example/pg@${digest}`, undefined],
    ['loaded into the node: an id alone', 'localhost/pg:18', digest, undefined],
    ['with the id of Docker', 'pg:18', `docker://${digest}`, undefined],
    ['with an id without its algorithm', 'pg:18', digest.slice(7), undefined],
    [
      'loaded by kind, with an invented name',
      'localhost/pg:18',
      `docker.io/library/import-2026-01-02@${digest}`,
      undefined,
    ],
    ['of a mirror', 'r.example/pg:18', `mirror.example/pg@${digest}`, undefined],
    ['with a truncated digest', 'r.example/pg:18', 'r.example/pg@sha256:0123', undefined],
    ['run without an image', 'postgres:18', '', undefined],
  ])('%s', (_, reference, imageId, expected) => {
    expect(pinnedReference(reference, imageId)).toBe(expected)
  })
})
