import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/*.test.ts'],
    testTimeout: 20_000,
    // a warning that @jupyter/ydoc causes for each new cell
    onConsoleLog: log => !log.includes('Add Yjs type to a document')
  }
});
