// @ts-nocheck
export * from './errors.ts'
export * from './kinds.ts'
export * from './port.ts'
