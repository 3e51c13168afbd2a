import { describe, expect, test } from 'vitest'
import { pinnedReference } from './image.ts'

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`

describe('an image by digest', () => {
  test.each<[string, string, string, string | undefined]>([
    ['reported by containerd', 'r.example/pg:18', `r.example/pg@${digest}`, `r.example/pg@${digest}`],
    ['without a tag', 'r.example/pg', `r.example/pg@${digest}`, `r.example/pg@${digest}`],
    [
      'from a registry with a port',
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
    ['from Docker Hub, by its short name', 'postgres:18', `docker.io/library/postgres@${digest}`, `postgres@${digest}`],
    ["from a user's repository on Docker Hub", 'me/pg:18', `docker.io/me/pg@${digest}`, `me/pg@${digest}`],
    [
      "from Docker Hub, by the hub's older name",
      'index.docker.io/me/pg:1',
      `docker.io/me/pg@${digest}`,
      `index.docker.io/me/pg@${digest}`,
    ],
    ['of localhost', 'localhost/pg:18', `localhost/pg@${digest}`, `localhost/pg@${digest}`],
    ['that the installation configures by digest', `r.example/pg@${digest}`, `r.example/pg@${digest}`, undefined],
    [
      'that the installation configures by tag and digest',
      `r.example/pg:18@${digest}`,
      `r.example/pg@${digest}`,
      undefined,
    ],
    ['that was loaded into the node, and has only an id', 'localhost/pg:18', digest, undefined],
    ["with Docker's id", 'pg:18', `docker://${digest}`, undefined],
    ['with an id without its algorithm', 'pg:18', digest.slice(7), undefined],
    [
      'that the tool kind loaded, with a generated name',
      'localhost/pg:18',
      `docker.io/library/import-2026-01-02@${digest}`,
      undefined,
    ],
    ['of a mirror', 'r.example/pg:18', `mirror.example/pg@${digest}`, undefined],
    ['with a truncated digest', 'r.example/pg:18', 'r.example/pg@sha256:0123', undefined],
    ['of a pod that runs without an image', 'postgres:18', '', undefined],
  ])('%s', (_, reference, imageId, expected) => {
    expect(pinnedReference(reference, imageId)).toBe(expected)
  })
})
