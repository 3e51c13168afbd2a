/** For tests: a size that Postgres just runs well with, and a database as its kind's defaults leave it. */
// @ts-nocheck

import type { ManagedDatabaseSpec, SizeShape } from '../../crds/index.ts'

export const smallShape: SizeShape = {
  qosClass: 'burstable',
  cpuRequest: '100m',
  cpuLimit: '1',
  memoryRequest: '64Mi',
  memoryLimit: '256Mi',
  storageSize: '1Gi',
  temporaryDataSize: '100Mi',
  sharedMemorySize: '64Mi',
  connections: 20,
  postgresSettings: {},
}

export const plainSpec: ManagedDatabaseSpec = {
  region: 'here',
  size: { name: 'small', version: 1 },
  pgVersion: '18',
  instances: 1,
  ipAllowlist: { rules: [] },
  services: [],
  options: [],
  deletionProtection: false,
  backup: { durable: false },
  suspended: false,
  deletion: { keepBackups: false },
}
